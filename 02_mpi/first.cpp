// First contact: y = A x by several processes, in plain MPI, in one file.
//
//   mpicxx -std=c++20 -O3 first.cpp -o first && mpirun -n 4 ./first
//
// A has n x n elements. mpirun starts the program as many times as it is told; each copy has memory of its own,
// and a number, its rank. Rank 0 makes A and x. Each rank gets some rows of A, and all of x; it multiplies; and
// rank 0 gathers y, checks it, and says how long the multiplication and the whole took. An error in a call of
// MPI ends all ranks with a message. The other files of this step hold such a product in a frame that measures
// more carefully (docs/timing.md), checks more strictly (docs/checking.md), and sends matrices of any size.

#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  // Rank r has rows first_row[r] .. first_row[r + 1] - 1: of 1000 rows on 3 ranks 333, 333 and 334.
  const int n = 1000;
  std::vector<int> first_row(ranks + 1), row_count(ranks), first_element(ranks), element_count(ranks);
  for (int r = 0; r <= ranks; ++r) first_row[r] = r * n / ranks;
  for (int r = 0; r < ranks; ++r) {
    row_count[r] = first_row[r + 1] - first_row[r];
    first_element[r] = first_row[r] * n;
    element_count[r] = row_count[r] * n;
  }

  std::vector<double> a, x(n), y;  // a and y: on rank 0, whose memory the others cannot read
  if (rank == 0) {
    a.resize(n * n);
    y.assign(n, NAN);  // what nobody computes is seen
    for (int i = 0; i < n * n; ++i) a[i] = i % 7 - 3;
    for (int j = 0; j < n; ++j) x[j] = j % 5 / 4.0;
  }
  std::vector<double> my_a(element_count[rank]), my_y(row_count[rank]);

  MPI_Barrier(MPI_COMM_WORLD);  // all begin at the same time
  const double start = MPI_Wtime();
  MPI_Scatterv(a.data(), element_count.data(), first_element.data(), MPI_DOUBLE, my_a.data(),
               element_count[rank], MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Bcast(x.data(), n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  const double placed = MPI_Wtime();
  for (int i = 0; i < row_count[rank]; ++i) {
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += my_a[i * n + j] * x[j];
    my_y[i] = sum;
  }
  const double computed = MPI_Wtime();
  MPI_Gatherv(my_y.data(), row_count[rank], MPI_DOUBLE, y.data(), row_count.data(), first_row.data(),
              MPI_DOUBLE, 0, MPI_COMM_WORLD);
  const double mine[2] = {computed - placed, MPI_Wtime() - start};
  double slowest[2];  // of all ranks
  MPI_Reduce(mine, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);

  int wrong = 0;
  for (int i = 0; rank == 0 && wrong == 0 && i < n; ++i) {
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += a[i * n + j] * x[j];
    if (!(std::fabs(y[i] - sum) <= 1e-12 * n)) {  // not >, which a NaN would pass
      std::printf("wrong: y[%d] is %g and should be %g\n", i, y[i], sum);
      wrong = 1;
    }
  }
  if (rank == 0 && !wrong)
    std::printf("right: %d rows on %d ranks, multiplied in %.3f ms, root to root in %.3f ms\n", n, ranks,
                slowest[0] * 1e3, slowest[1] * 1e3);
  MPI_Finalize();
  return wrong;
}
