// Generators: the same matrix on any machine and any number of threads, the counts that structure dictates,
// the sizes of published matrices, and one-line errors.

#include "common/matrix/generate.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/matrix/builtin.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/memory.hpp"
#include "common/matrix/random.hpp"
#include "common/matrix/statistics.hpp"
#include "tests/expect.hpp"

namespace stages {
namespace {

/// One number for a whole matrix: shape, structure and the bits of the values (as double, which holds a float
/// exactly).
template <class T>
std::uint64_t fingerprint(const Csr<T>& a) {
  std::uint64_t h = 0;
  const auto add = [&](std::uint64_t word) { h = random::mix(h + random::kGolden + word); };
  add(static_cast<std::uint64_t>(a.rows));
  add(static_cast<std::uint64_t>(a.cols));
  for (const Offset p : a.row_ptr) add(static_cast<std::uint64_t>(p));
  for (const Index j : a.col_idx) add(static_cast<std::uint64_t>(j));
  for (const T v : a.values) add(std::bit_cast<std::uint64_t>(static_cast<double>(v)));
  return h;
}

/// Specs and the matrices that they must give, recorded once: whatever changes one of these numbers changes the
/// matrices behind recorded results. What docs/generators.md says of a kind held when they were recorded. The
/// usual ones are among the pairs of parameters below.
struct Golden {
  const char* spec;
  Offset nnz;
  std::uint64_t fingerprint;
};
constexpr Golden kGolden[] = {
    {"gen:uniform:rows=1,cols=5000,nnz=700,seed=9", 700, 0x8A3681BB17CAA6BCU},
    {"gen:fixed:rows=500,cols=40,per_row=3,seed=18446744073709551615", 1500, 0xE39F305E8827EFE3U},
    {"gen:rmat:n=9000,edge_factor=4,hub_share=0.2,values=ones", 35084, 0x15D8AC7FE859817BU},
    {"gen:d1:a", 784379, 0x34C999A63E8B7301U},  // the sizes that the report gives
    {"gen:d1:b", 46796, 0x9733E5EA8B4D8503U},
    {"gen:uniform:n=8191,nnz=784379", 784379, 0xA628C8E677D7A94DU},
    {"gen:uniform:rows=20,cols=30,nnz=0", 0, 0xE6016F0A83B38B27U},
    {"gen:uniform:rows=20,cols=30,nnz=1", 1, 0xA786A48E7B5222A4U},
    {"gen:uniform:rows=20,cols=30,nnz=599", 599, 0xD4A4628EE44A2461U},
    {"gen:uniform:rows=20,cols=30,nnz=600", 600, 0xA8EF8BFC5C3995DU},
    {"gen:uniform:rows=0,cols=4", 0, 0xE5D6F62D4A1C10DCU},
    {"gen:uniform:rows=4,cols=0,nnz=0", 0, 0x589F15A270330847U},
    {"gen:fixed:rows=9,cols=50,per_row=50", 450, 0x7ACCF68C173159D7U},
    {"gen:fixed:rows=9,cols=50,zeros=1", 0, 0x1B836546AE57DB10U},
    {"gen:hubs:rows=7,cols=90,per_row=2,hubs=7,hub_length=90", 630, 0x394A08DED2145F98U},
    {"gen:hubs:rows=0,cols=9,per_row=2,hubs=0", 0, 0xFDD2CA16D8AE0738U},
    {"gen:pruned:rows=5,cols=7,zeros=0,row_spread=0,col_spread=0", 35, 0xC77559A4DA7E910FU},
    {"gen:pruned:rows=50,cols=70,zeros=1,row_spread=1,col_spread=1", 0, 0xA512753258387C00U},
    {"gen:rmat:n=1,edges=5", 1, 0x6F68E03172B6B68DU},
    {"gen:rmat:n=5,edges=0", 0, 0xEDC39331FAA94485U},
    {"gen:communities:n=3000,edge_factor=10,blocks=30,inside=0.95", 26153, 0xDD243AA8B410A7AU},
    {"gen:twin:am,shrink=64,runs=no", 82148, 0x6C70EDBF2924398CU},
    {"gen:hypergraph:nets=9000,cells=10000,pins_per_net=4,long_nets=2,long_share=0.05", 35655,
     0xF317723100B2742CU},
    {"gen:hypergraph:nets=1,cells=1,long_nets=0", 1, 0x6F68E03172B6B68DU},
    {"gen:banded:n=5,half_bandwidth=99", 25, 0x852DC0D14DEFBE7AU},
    {"gen:banded:n=50,half_bandwidth=6,fill=0", 50, 0xF205ECD29AEEA849U},
    {"gen:banded:n=0", 0, 0x238275BC38FCBE91U},
    {"gen:diagonal:n=5,offset=7", 0, 0xEDC39331FAA94485U},
    {"gen:dense:rows=0,cols=4", 0, 0xE5D6F62D4A1C10DCU},
};

// On any number of threads, and as float and double the same numbers.
TEST(Generate, GivesTheRecordedMatrices) {
  for (const Golden& golden : kGolden) {
    const auto a = generate<double>(golden.spec, 2);
    EXPECT_NO_THROW(require_canonical(a, golden.spec));
    EXPECT_TRUE(a.nnz() == golden.nnz && fingerprint(a) == golden.fingerprint)
        << "now    {\"" << golden.spec << "\", " << a.nnz() << ", 0x" << std::hex << std::uppercase
        << fingerprint(a) << "U},";
    for (const int threads : {1, 2, 7})
      EXPECT_EQ(fingerprint(generate<float>(golden.spec, threads)), golden.fingerprint) << golden.spec;
  }
  // Large enough that every thread gets several blocks of draws.
  const auto one = fingerprint(generate<float>("gen:rmat:scale=16,edge_factor=8", 1));
  EXPECT_EQ(fingerprint(generate<float>("gen:rmat:scale=16,edge_factor=8", 7)), one);
}

/// A value that no generator has as its default, for each parameter.
const std::map<std::string_view, std::string_view> kOthers = {
    {"n", "90"},           {"rows", "70"},         {"cols", "110"},       {"per_row", "5"},
    {"nnz", "300"},        {"zeros", "0.7"},       {"hubs", "3"},         {"hub_length", "60"},
    {"row_spread", "0"},   {"col_spread", "1"},    {"per_col", "3"},      {"blocks", "7"},
    {"coupling", "0.3"},   {"coupling_rows", "4"}, {"scale", "6"},        {"edge_factor", "5"},
    {"edges", "250"},      {"a", "0.45"},          {"symmetric", "yes"},  {"hub_max", "40"},
    {"hub_share", "0.3"},  {"skew", "2.5"},        {"col_skew", "1"},     {"block_skew", "2"},
    {"inside", "0.6"},     {"order", "shuffled"},  {"graph", "collab"},   {"shrink", "16"},
    {"thin", "300"},       {"runs", "yes"},        {"nets", "80"},        {"cells", "95"},
    {"long_nets", "1"},    {"long_share", "0.2"},  {"pins_per_net", "6"}, {"half_bandwidth", "3"},
    {"fill", "0.5"},       {"points", "9"},        {"nx", "7"},           {"ny", "5"},
    {"nz", "4"},           {"unknowns", "2"},      {"keep", "0.8"},       {"rails", "3"},
    {"rail_share", "0.1"}, {"offset", "-3"},       {"which", "b"},        {"form", "uniform"},
    {"seed", "9"},         {"values", "integers"}, {"recent", "0.7"},     {"users", "80"},
    {"items", "60"},       {"dimensions", "3"},    {"neighbours", "5"},   {"block", "5"},
    {"border", "3"},       {"base", "2"},          {"power", "4"},        {"polynomials", "7"},
    {"terms", "9"},        {"reach", "300"}};

/// All matrices with two parameters of their generator set, but large ones, as a number for each generator,
/// recorded once.
TEST(Generate, EachPairOfParametersGivesTheRecordedMatrices) {
  std::map<std::string_view, std::uint64_t> made;
  for (const GeneratorInfo& g : generators())
    for (const GeneratorParameter& p : g.parameters)
      for (const GeneratorParameter& q : g.parameters) {
        if (&q <= &p) continue;
        const std::string spec =
            fmt::format("gen:{}:{}={},{}={}", g.name, p.name, kOthers.at(p.name), q.name, kOthers.at(q.name));
        try {
          if (generation_bytes<float>(spec) > 3'000'000) continue;
          const std::uint64_t print = fingerprint(generate<float>(spec));
          made[g.name] = random::mix(made[g.name] + print);
        } catch (const Error&) {  // two that say one thing twice, or do not go together
          made[g.name] = random::mix(made[g.name]);
        }
      }
  const std::map<std::string_view, std::uint64_t> recorded = {
      {"banded", 0xA8C4AA8BF08275F4U},      {"bordered", 0xA6BFD1CCEF06D61BU},
      {"circuit", 0x2AFD00CC0FBCBA94U},     {"citation", 0x73C5E0C97CC2AC3DU},
      {"communities", 0x6DF3AF7C41BCC8FFU}, {"d1", 0xCAD8C533302D8CBFU},
      {"dense", 0xCAC899D22CD5D1DFU},       {"diagonal", 0x1DB7F65E2345904DU},
      {"eye", 0xE43A3E5D05131308U},         {"fem", 0x6A2152E2E6ADD14U},
      {"fixed", 0x8B1F4DE014BBBE10U},       {"hubs", 0x4511DD2EF96495B9U},
      {"hypergraph", 0x8EB4A926AEC1358FU},  {"hypersparse", 0xDCBB1C6FB67C9D2U},
      {"kronecker", 0xC44735AFD18493A4U},   {"lp", 0xF3C26CFCFD81006EU},
      {"macaulay", 0xDD39279C6EF17E2FU},    {"neighbours", 0xFC3A34F0B0059AAU},
      {"powerlaw", 0xA8EB3CD650A2CF24U},    {"pruned", 0x19E38D5D5D1F3196U},
      {"ratings", 0xB59FF990F1C21E56U},     {"rmat", 0xD5EC1926E9092C71U},
      {"road", 0x1557AA6522B8695AU},        {"saddle", 0xB035725F0B03596FU},
      {"stencil", 0x28F5E223DBB8DE4DU},     {"triangles", 0xEEB1B8F4DBB9F39AU},
      {"twin", 0xB3EB87147DFD255U},         {"uniform", 0xF84B14CEF914C8E9U}};
  for (const auto& [name, print] : made) {
    const auto found = recorded.find(name);
    EXPECT_TRUE(found != recorded.end() && found->second == print)
        << "now    {\"" << name << "\", 0x" << std::hex << std::uppercase << print << "U},";
  }
}

TEST(Generate, EachExampleWorks) {
  for (const GeneratorInfo& g : generators()) {
    EXPECT_FALSE(g.stands_for.empty());
    ASSERT_NO_THROW(generation_bytes<float>(g.example)) << g.example;
    EXPECT_TRUE(starts(g.example, fmt::format("gen:{}:", g.name)));
    if (generation_bytes<float>(g.example) < 100'000'000) {
      EXPECT_GT(generate<float>(g.example).nnz(), 0) << g.example;
    }
  }
}

TEST(CoursePair, HasAProductOfThePublishedSize) {
  const auto a = generate<float>("gen:d1:a"), b = generate<float>("gen:d1:b");
  EXPECT_EQ(product_cost(a, b).nnz_estimate, 4'185'601);
}

TEST(Twins, MemoryIsKnownBeforehand) {
  // Pattern of reddit: 4 bytes per edge as drawn and as packed, then 4 per value in place of the former.
  EXPECT_NEAR(static_cast<double>(generation_bytes<float>("gen:twin:reddit")), 8 * 114.6e6, 20e6);
  EXPECT_NEAR(static_cast<double>(generation_bytes<double>("gen:twin:reddit")), 12 * 114.6e6, 20e6);
}

TEST(Spec, CountsMayBeWrittenWithExponents) {
  const auto expected = fingerprint(generate<float>("gen:hypersparse:n=12500,nnz=100"));
  for (const char* spec : {"gen:hypersparse:n=1.25e4,nnz=1e2", "gen:hypersparse:nnz=100.0,n=0.0125E+6"})
    EXPECT_EQ(fingerprint(generate<float>(spec)), expected) << spec;
  EXPECT_EQ(fingerprint(generate<float>("gen:twin:ddi,shrink=8")),
            fingerprint(generate<float>("gen:twin:shrink=8,graph=ddi")));
}

TEST(Spec, IsToldFromAFileName) {
  EXPECT_TRUE(is_matrix_spec("gen:rmat"));
  EXPECT_TRUE(is_matrix_spec("data:web"));
  EXPECT_FALSE(is_matrix_spec("generated.mtx"));
  EXPECT_FALSE(is_matrix_spec("./gen:rmat"));
}

TEST(Spec, ErrorsNameWhatIsWrongAndWhatThereIs) {
  struct Case {
    const char* spec;
    std::vector<const char*> words;
  };
  const Case cases[] = {
      {"rmat:scale=3", {"rmat:scale=3", "gen:NAME"}},
      {"gen:", {"gen:NAME"}},
      {"gen:nosuch:n=3", {"nosuch", "uniform", "rmat", "twin", "d1"}},
      {"gen:rmat:size=3", {"size", "scale", "edge_factor", "hub_share"}},
      {"gen:rmat:scale", {"scale=scale", "whole number"}},
      {"gen:rmat:n=5,edges", {"'edges'", "KEY=VALUE", "gen:rmat:scale=17"}},
      {"gen:rmat:n=5,,edges=3", {"''", "KEY=VALUE"}},
      {"gen:rmat:n=5,", {"last comma", "gen:rmat:scale=17"}},
      {"gen:rmat:n=", {"'n='", "KEY=VALUE"}},
      {"gen:rmat:n=5,n=6", {"'n'", "twice"}},
      {"gen:rmat:n=1.5e0", {"n=1.5e0", "whole number"}},
      {"gen:rmat:n=-4", {"n=-4", "whole number"}},
      {"gen:rmat:n=1e99", {"n=1e99", "2147483647"}},
      {"gen:rmat:n=12345678901234567890", {"2147483647"}},
      {"gen:rmat:n=3e9", {"n=3e9", "2147483647"}},
      {"gen:rmat:n=0x10", {"n=0x10"}},
      {"gen:rmat:n=1e", {"n=1e "}},
      {"gen:rmat:scale=31", {"scale=31", "30"}},
      {"gen:rmat:n=8,scale=3", {"n or scale"}},
      {"gen:rmat:edges=8,edge_factor=3", {"edges or edge_factor"}},
      {"gen:rmat:a=0.1", {"a=0.1", "0.25"}},
      {"gen:rmat:a=nan", {"a=nan"}},
      {"gen:rmat:a=0.5x", {"a=0.5x"}},
      {"gen:rmat:seed=-1", {"seed=-1", "2^64"}},
      {"gen:rmat:seed=18446744073709551616", {"seed=", "2^64"}},
      {"gen:rmat:values=twos", {"values=twos", "uniform, integers, ones"}},
      {"gen:rmat:scale=4,edge_factor=100,hub_max=17", {"17", "16 columns"}},
      {"gen:rmat:scale=8,edges=20,hub_max=17", {"17, 11 and 8", "20 entries"}},
      {"gen:rmat:n=2,edges=20,hub_max=2", {"three hub rows", "2 rows"}},
      {"gen:twin:cora", {"graph=cora", "arxiv", "am"}},
      {"gen:twin:reddit,hub_share=0.2", {"22923178", "232965"}},
      {"gen:rmat:n=640,hub_max=300,hub_share=0.01", {"hub_max or hub_share"}},
      {"gen:fixed:n=10,rows=5,cols=5", {"n, or rows and cols"}},
      {"gen:dense:n=0,rows=5,cols=5", {"n, or rows and cols"}},
      {"gen:uniform:n=10,nnz=101", {"101", "100 places"}},
      {"gen:uniform:n=10,nnz=5,per_row=2", {"nnz or per_row"}},
      {"gen:fixed:n=10,per_row=11", {"per_row=11", "10"}},
      {"gen:stencil:points=6", {"points=6", "5, 7, 9, 27"}},
      {"gen:stencil:points=5,nz=3", {"nz", "in space"}},
      {"gen:stencil:points=27,nx=2000", {"2000 x 2000 x 2000", "2^31"}},
      {"gen:communities:n=10,blocks=11", {"blocks=11"}},
      {"gen:lp:rows=10,coupling_rows=10", {"coupling_rows=10"}},
      {"gen:hubs:n=100,hub_length=101", {"hub_length=101", "100"}},
      {"gen:hubs:n=100,hubs=101,hub_length=5", {"hubs=101", "100"}},
      {"gen:hubs:n=100,per_row=101,hub_length=5", {"per_row=101", "100"}},
      {"gen:pruned:zeros=1.5", {"zeros=1.5", "1"}},
      {"gen:pruned:row_spread=-1", {"row_spread=-1"}},
      {"gen:hypergraph:nets=0", {"nets=0", "1"}},
      {"gen:hypergraph:pins_per_net=1", {"pins_per_net=1", "2"}},
      {"gen:hypergraph:nets=5,long_nets=6", {"long_nets=6", "5"}},
      {"gen:hypergraph:skew=17", {"skew=17", "16"}},
      {"gen:dense:n=2147483647", {"more than any machine"}},
      {"gen:uniform:n=2147483647,per_row=2147483647", {"more than any machine"}},
      {"gen:banded:n=2147483647,half_bandwidth=2147483647", {"more than any machine"}},
      {"gen:circuit:n=2147483647,per_row=1e6,rails=1000,rail_share=1", {"more than any machine"}},
      {"data:nosuch", {"data:nosuch", "web", "d1"}},
  };
  for (const Case& c : cases) {
    const std::string message = error_of([&] { generate<float>(c.spec); });
    for (const char* word : c.words) EXPECT_TRUE(has(message, word)) << c.spec;
  }
}

TEST(Spec, RefusesMoreMemoryThanThereIs) {
  EXPECT_TRUE(has(error_of([&] { generate<double>("gen:uniform:n=2e9,per_row=1000"); }), "needs 2.4e+04 GB"));
  const Offset entries = available_memory() / 12 * 11 / 10;  // of 12 bytes each
  EXPECT_TRUE(
      has(error_of([&] { generate<double>(fmt::format("gen:uniform:n=1e6,nnz={}", entries)); }), "needs "));
}

TEST(Random, PermutationsArePermutations) {
  for (const random::Word size : {1U, 2U, 3U, 5U, 8U, 17U, 64U, 1000U, 4097U}) {
    const random::Permutation permuted(size, random::key(size, random::Purpose::cells));
    std::set<random::Word> images;
    for (random::Word x = 0; x < size; ++x) images.insert(permuted(x));
    EXPECT_EQ(images.size(), size);
    EXPECT_LT(*images.rbegin(), size);
  }
}

TEST(Builtin, EveryMatrixIsMadeAndOfMiddlingSize) {
  std::set<std::string_view> names;
  Offset total = 0;
  for (const BuiltinMatrix& m : builtin_set()) {
    SCOPED_TRACE(std::string(m.name));
    EXPECT_TRUE(names.insert(m.name).second) << "twice";
    const auto a = generate<float>("data:" + std::string(m.name));
    EXPECT_EQ(fingerprint(a), fingerprint(generate<float>(m.spec)));
    EXPECT_GE(a.nnz(), 50'000);
    EXPECT_LE(a.nnz(), 800'000);
    total += a.nnz();
    EXPECT_TRUE(m.meant_for("spmv") || m.meant_for("spgemm"));
    EXPECT_FALSE(m.meant_for("sp"));
    if (!m.b_spec.empty()) {
      EXPECT_EQ(generate<float>(m.b_spec).rows, a.cols);
    }
  }
  for (const char* kind : {"web", "social", "fem", "circuit", "road", "lp", "hypersparse", "d1"})
    EXPECT_TRUE(names.contains(kind)) << kind;
  EXPECT_LT(total, 6'000'000);
  EXPECT_NE(generate<float>("data:lp").rows, generate<float>("data:lp").cols);
  EXPECT_FALSE(builtin("d1").b_spec.empty());
}

}  // namespace
}  // namespace stages
