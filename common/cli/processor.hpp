#pragma once
// With -march=native a program runs only on processors that can do what the one can that it was built on. On
// another, as of a cluster's compute nodes, it would die by an illegal instruction, which tells nobody a thing.

namespace stages {

/// Ends the program with a line and exit code 2 if it was built for a processor that can do more than this
/// one. This happens before main, since global objects, too, are made by code for that processor; the call in
/// main makes sure that it is linked.
void require_processor();

/// What all sources but processor.cpp were compiled for, ended by a null pointer. Data, so that no code for
/// that processor has to run to read it.
extern const char* const built_for[];

}  // namespace stages
