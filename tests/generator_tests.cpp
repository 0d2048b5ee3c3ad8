// Generators: the same matrix on any machine and any number of threads, the counts that structure dictates,
// the sizes of published matrices, and one-line errors.

#include "common/matrix/generate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/matrix/builtin.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/random.hpp"
#include "common/matrix/statistics.hpp"

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

/// Small specs and the matrices that they must give, recorded once: whatever changes one of these numbers
/// changes the matrices behind recorded results.
struct Golden {
  const char* spec;
  Offset nnz;
  std::uint64_t fingerprint;
};
constexpr Golden kGolden[] = {
    {"gen:uniform:n=300,per_row=4", 1200, 0x15DE555BB5BB2E23U},
    {"gen:uniform:rows=1,cols=5000,nnz=700,seed=9", 700, 0x8A3681BB17CAA6BCU},
    {"gen:uniform:rows=70,cols=3,nnz=210,values=integers", 210, 0xDF30B4D24DA4E5DAU},
    {"gen:fixed:n=256,zeros=0.8", 13056, 0xF7D2A2F836444F3AU},
    {"gen:fixed:rows=500,cols=40,per_row=3,seed=18446744073709551615", 1500, 0xE39F305E8827EFE3U},
    {"gen:hypersparse:n=1e6,nnz=1e3", 1000, 0x831593853FA9FB33U},
    {"gen:hubs:n=3000,per_row=3,hubs=2,hub_length=900", 10794, 0x8CC93C2B032599BCU},
    {"gen:hubs:rows=40,cols=5000,per_row=0,hubs=5,hub_length=5000", 25000, 0x714340684F14D4D4U},
    {"gen:pruned:rows=100,cols=300,zeros=0.9", 2884, 0x12B80CCE0962DA82U},
    {"gen:lp:rows=200,cols=3000,per_col=5", 12718, 0xD0222A2E5BCA57E1U},
    {"gen:rmat:scale=10", 6995, 0x81217AD2EF40A688U},
    {"gen:rmat:n=1000,edges=5e3,a=0.45,symmetric=yes,seed=7", 9625, 0xF7897A244FDCCFB8U},
    {"gen:rmat:n=1500,edge_factor=6,hub_max=800", 8372, 0xC957AB5C5D682B58U},
    {"gen:rmat:n=9000,edge_factor=4,hub_share=0.2,values=ones", 35084, 0x15D8AC7FE859817BU},
    {"gen:powerlaw:n=2000,edge_factor=5,hub_max=300", 9419, 0x43CE4AB7C3AF6C44U},
    {"gen:communities:n=2000,blocks=16,block_skew=2", 14133, 0xBD7AD3D8D71A2098U},
    {"gen:communities:n=2000,blocks=16,order=shuffled", 14611, 0xED23B6EF23F1DC8U},
    {"gen:twin:reddit,shrink=256,thin=64", 6733, 0xE82121A30B5AD0D4U},
    {"gen:twin:am,shrink=512", 9670, 0x447DB47C478FF9D4U},
    {"gen:twin:am,shrink=128,runs=yes", 40459, 0x1FF15878017ECD66U},
    {"gen:hypergraph:nets=900,cells=1000", 3292, 0x30E3814195B5ADD2U},
    {"gen:banded:n=900,half_bandwidth=7,fill=0.5", 7228, 0x5843EDF7F0AAC5ABU},
    {"gen:stencil:points=5,nx=30,ny=17", 2456, 0xD2EFF9645267C8D9U},
    {"gen:stencil:points=9,nx=17,ny=30", 4312, 0xA71243A2B7BAC2CBU},
    {"gen:stencil:points=7,nx=9,ny=7,nz=5", 1919, 0x3B3CFB311D1E22E9U},
    {"gen:stencil:points=27,nx=5,ny=7,nz=9", 6175, 0x3BCA309DCB32B706U},
    {"gen:fem:nx=4,ny=3,nz=5,unknowns=3", 8190, 0xF8605C5FB915BF49U},
    {"gen:road:nx=40,ny=50", 4646, 0xBED03BD94F11A8CFU},
    {"gen:circuit:n=2000", 9190, 0x7EDBDDF933D1E212U},
    {"gen:eye:n=100", 100, 0xA3817B8DC10B62C6U},
    {"gen:diagonal:n=100,offset=30", 70, 0x36B78F7D07F077A6U},
    {"gen:dense:rows=30,cols=20", 600, 0x154C2B9F6D4ECAACU},
    {"gen:d1:a,shrink=8", 12276, 0xAA77DB4EE0F1C45BU},
    {"gen:d1:b,shrink=8", 5849, 0x77F70F913710E4E3U},
    {"gen:d1:a,shrink=8,form=uniform", 12276, 0x82E7D6B2D79EFD75U},
    {"gen:d1:b,shrink=8,form=uniform", 5849, 0xC7DACB30185F7637U},
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

TEST(Generate, TheRecordedMatricesCoverEveryGenerator) {
  for (const GeneratorInfo& g : generators()) {
    const std::string head = "gen:" + std::string(g.name) + ":";
    EXPECT_TRUE(std::ranges::any_of(kGolden, [&](const Golden& golden) {
      return std::string(golden.spec).starts_with(head);
    })) << g.name;
  }
}

TEST(Generate, SeedsDiffer) {
  for (const Golden& golden : kGolden) {
    const std::string spec = golden.spec;
    if (spec.find("seed=") != std::string::npos || spec.starts_with("gen:eye") ||
        (spec.starts_with("gen:d1") && spec.find("uniform") == std::string::npos))
      continue;
    EXPECT_NE(fingerprint(generate<float>(spec + ",seed=2")), golden.fingerprint) << spec;
    EXPECT_EQ(fingerprint(generate<float>(spec + ",seed=1")), golden.fingerprint) << spec;
  }
}

TEST(Generate, EveryExampleWorks) {
  for (const GeneratorInfo& g : generators()) {
    EXPECT_FALSE(g.stands_for.empty());
    ASSERT_NO_THROW(generation_bytes<float>(g.example)) << g.example;
    EXPECT_TRUE(g.example.starts_with("gen:" + std::string(g.name) + ":")) << g.example;
    if (generation_bytes<float>(g.example) < 100'000'000) {
      EXPECT_GT(generate<float>(g.example).nnz(), 0) << g.example;
    }
  }
}

// --- counts that structure dictates ------------------------------------------------------------------------

Offset nnz_of(const std::string& spec) {
  const auto a = generate<float>(spec);
  EXPECT_NO_THROW(require_canonical(a, spec.c_str()));
  return a.nnz();
}

TEST(Structure, StencilsHaveTheirClosedForm) {
  for (const Offset x : {1, 2, 5}) {
    for (const Offset y : {1, 3, 6}) {
      const std::string plane = ",nx=" + std::to_string(x) + ",ny=" + std::to_string(y);
      EXPECT_EQ(nnz_of("gen:stencil:points=5" + plane), 5 * x * y - 2 * x - 2 * y);
      EXPECT_EQ(nnz_of("gen:stencil:points=9" + plane), (3 * x - 2) * (3 * y - 2));
      for (const Offset z : {1, 4}) {
        const std::string space = plane + ",nz=" + std::to_string(z);
        EXPECT_EQ(nnz_of("gen:stencil:points=7" + space), 7 * x * y * z - 2 * (x * y + y * z + z * x));
        EXPECT_EQ(nnz_of("gen:stencil:points=27" + space), (3 * x - 2) * (3 * y - 2) * (3 * z - 2));
        EXPECT_EQ(nnz_of("gen:fem:unknowns=2" + space), 4 * (3 * x - 2) * (3 * y - 2) * (3 * z - 2));
      }
    }
  }
}

TEST(Structure, StencilCouplesNeighboursOnly) {
  const auto a = generate<float>("gen:stencil:points=5,nx=4,ny=3");
  const auto row = row_columns(a, 5);  // (1, 1)
  EXPECT_EQ(std::vector<Index>(row.begin(), row.end()), (std::vector<Index>{1, 4, 5, 6, 9}));
  const auto corner = row_columns(a, 3);  // (3, 0): its right neighbour is not (0, 1)
  EXPECT_EQ(std::vector<Index>(corner.begin(), corner.end()), (std::vector<Index>{2, 3, 7}));
}

TEST(Structure, BandsHaveTheirClosedForm) {
  EXPECT_EQ(nnz_of("gen:banded:n=50,half_bandwidth=6"), 50 * 13 - 6 * 7);
  EXPECT_EQ(nnz_of("gen:banded:n=5,half_bandwidth=99"), 25);
  EXPECT_EQ(nnz_of("gen:banded:n=50,half_bandwidth=6,fill=0"), 50);
  EXPECT_EQ(nnz_of("gen:banded:n=0"), 0);
  const auto s = statistics(generate<float>("gen:banded:n=500,half_bandwidth=6,fill=0.9"));
  EXPECT_EQ(s.lower_bandwidth, 6);
  EXPECT_EQ(s.upper_bandwidth, 6);
}

TEST(Structure, SmallOnes) {
  const auto eye = generate<double>("gen:eye:n=3");
  EXPECT_EQ(eye.col_idx, (Buffer<Index>{0, 1, 2}));
  EXPECT_EQ(eye.values, (Buffer<double>{1, 1, 1}));
  EXPECT_EQ(generate<double>("gen:diagonal:n=5,offset=3").col_idx, (Buffer<Index>{3, 4}));
  EXPECT_EQ(nnz_of("gen:diagonal:n=5,offset=7"), 0);
  EXPECT_EQ(nnz_of("gen:dense:rows=3,cols=4"), 12);
  EXPECT_EQ(nnz_of("gen:dense:rows=0,cols=4"), 0);
  EXPECT_EQ(nnz_of("gen:uniform:rows=0,cols=4"), 0);
  EXPECT_EQ(nnz_of("gen:uniform:rows=4,cols=0,nnz=0"), 0);
  EXPECT_EQ(nnz_of("gen:rmat:n=1,edges=5"), 1);
  EXPECT_EQ(nnz_of("gen:rmat:n=5,edges=0"), 0);
}

TEST(Structure, UniformHasExactlyAsManyAsAsked) {
  for (const char* nnz : {"0", "1", "17", "599", "600"})
    EXPECT_EQ(nnz_of(std::string("gen:uniform:rows=20,cols=30,nnz=") + nnz), std::stol(nnz));
  EXPECT_EQ(nnz_of("gen:uniform:rows=1,cols=1000,nnz=900"), 900);
}

TEST(Structure, UniformIsUniform) {
  // Row and column lengths of 2^18 cells out of 2^20 are hypergeometric: mean 256, variance 256 * 3/4 and a
  // factor near 1. The sample variance over 1024 lines has a relative standard error of 4.4 %.
  const auto a = generate<float>("gen:uniform:n=1024,per_row=256");
  for (const auto& m : {a, transpose(a)}) {
    double variance = 0;
    for (Index i = 0; i < m.rows; ++i)
      variance += std::pow(static_cast<double>(m.row_nnz(i)) - 256, 2) / 1023;
    EXPECT_NEAR(variance / 192, 1.0, 0.22);
  }
  const auto near_dense = generate<float>("gen:uniform:n=8191,nnz=784379");
  EXPECT_NEAR(static_cast<double>(spgemm_products(near_dense, near_dense)), 75.1e6, 0.3e6);
  EXPECT_NEAR(static_cast<double>(product_cost(near_dense, near_dense).nnz_estimate), 45.2e6, 0.2e6);
}

TEST(Structure, FixedGivesEveryRowTheSame) {
  const std::pair<const char*, Offset> expected[] = {{"gen:fixed:n=1024", 205},
                                                     {"gen:fixed:n=256", 51},
                                                     {"gen:fixed:n=127", 25},
                                                     {"gen:fixed:rows=9,cols=50,per_row=50", 50},
                                                     {"gen:fixed:rows=9,cols=50,zeros=1", 0}};
  for (const auto& [spec, per_row] : expected) {
    const auto a = generate<float>(spec);
    for (Index i = 0; i < a.rows; ++i) ASSERT_EQ(a.row_nnz(i), per_row) << spec << " row " << i;
  }
}

TEST(Structure, HubsAreAFewRowsOfTheirLengthAndTheRestAreShort) {
  const auto a = generate<float>("gen:hubs:n=5000,per_row=3,hubs=4,hub_length=1234");
  ASSERT_NO_THROW(require_canonical(a, "hubs"));
  std::map<Offset, Index> rows_of_length;
  for (Index i = 0; i < a.rows; ++i) ++rows_of_length[a.row_nnz(i)];
  EXPECT_EQ(rows_of_length, (std::map<Offset, Index>{{3, 4996}, {1234, 4}}));
  EXPECT_EQ(nnz_of("gen:hubs:rows=7,cols=90,per_row=2,hubs=0"), 14);
  EXPECT_EQ(nnz_of("gen:hubs:rows=7,cols=90,per_row=2,hubs=7,hub_length=90"), 630);
  EXPECT_EQ(nnz_of("gen:hubs:rows=0,cols=9,per_row=2,hubs=0"), 0);
}

TEST(Structure, PrunedWeightsKeepTheirShareAndRowsAndColumnsDiffer) {
  const auto even = generate<float>("gen:pruned:rows=600,cols=900,zeros=0.8,row_spread=0,col_spread=0");
  EXPECT_NEAR(static_cast<double>(even.nnz()) / (600.0 * 900), 0.2, 0.005);
  // With a spread s, shares are uniform in mean * (1 - s) to mean * (1 + s): their deviation is s / sqrt(3) of
  // the mean, beside which the binomial's of a row is small.
  const auto uneven = generate<float>("gen:pruned:rows=600,cols=900,zeros=0.8,row_spread=0.6,col_spread=0.3");
  EXPECT_NEAR(static_cast<double>(uneven.nnz()) / (600.0 * 900), 0.2, 0.01);
  const auto deviation = [](const Csr<float>& m) {
    const double mean = static_cast<double>(m.nnz()) / m.rows;
    double variance = 0;
    for (Index i = 0; i < m.rows; ++i)
      variance += std::pow(static_cast<double>(m.row_nnz(i)) - mean, 2) / m.rows;
    return std::sqrt(variance) / mean;
  };
  EXPECT_NEAR(deviation(uneven), 0.6 / std::sqrt(3.0), 0.04);
  EXPECT_NEAR(deviation(transpose(uneven)), 0.3 / std::sqrt(3.0), 0.04);
  EXPECT_LT(deviation(even), 0.09);
  EXPECT_EQ(nnz_of("gen:pruned:rows=5,cols=7,zeros=0,row_spread=0,col_spread=0"), 35);
  EXPECT_EQ(nnz_of("gen:pruned:rows=50,cols=70,zeros=1,row_spread=1,col_spread=1"), 0);
}

TEST(Structure, HypergraphsAreLocalWithAFewLongNets) {
  const auto a =
      generate<float>("gen:hypergraph:nets=9000,cells=10000,pins_per_net=4,long_nets=2,long_share=0.05");
  EXPECT_EQ(a.rows, 9000);
  EXPECT_EQ(a.cols, 10000);
  Index longer_than_400 = 0, near = 0, in_short = 0;
  for (Index i = 0; i < a.rows; ++i) {
    EXPECT_GE(a.row_nnz(i), 1) << "each net has its two pins, which may coincide: " << i;
    if (i == 0 || i == 4500) {
      EXPECT_NEAR(static_cast<double>(a.row_nnz(i)), 500, 25) << i;
      continue;
    }
    longer_than_400 += a.row_nnz(i) > 400;
    for (const Index j : row_columns(a, i)) {
      ++in_short;
      near +=
          std::abs(j - i * 10 / 9) < 700;  // half of the pins are below a 32nd of the cells, and 60 % here
    }
  }
  EXPECT_LE(longer_than_400, 3);
  EXPECT_GT(near, in_short / 2);
  EXPECT_EQ(nnz_of("gen:hypergraph:nets=1,cells=1,long_nets=0"), 1);
}

TEST(Structure, HubRowsHaveTheirLengthsAndSpreadEvenly) {
  const Index n = 1000;
  const auto a = generate<float>("gen:rmat:n=1000,edges=220,hub_max=100");
  std::map<Offset, Index> row_of_length;
  for (Index i = 0; i < n; ++i) {
    if (a.row_nnz(i) > 0) row_of_length[a.row_nnz(i)] = i;
  }
  ASSERT_EQ(a.nnz(), 220) << "all edges were replaced by the hubs'";
  ASSERT_EQ(row_of_length.size(), 3U);
  for (const Offset length : {100, 70, 50}) {
    ASSERT_TRUE(row_of_length.contains(length));
    const auto columns = row_columns(a, row_of_length[length]);
    // Steps of n * 0.618... leave gaps of at most three lengths, none above twice the mean (three-gap
    // theorem).
    for (std::size_t k = 1; k < columns.size(); ++k)
      EXPECT_LE(columns[k] - columns[k - 1], 2 * n / length + 2) << length;
  }
}

TEST(Structure, OneHubHoldsTheShareAskedFor) {
  for (const char* spec :
       {"gen:rmat:n=20000,edge_factor=4,hub_share=0.2", "gen:powerlaw:n=20000,edge_factor=4,hub_share=0.2",
        "gen:twin:am,thin=2,hub_share=0.2"}) {
    const auto s = statistics(generate<float>(spec));
    EXPECT_NEAR(static_cast<double>(s.max_row) / static_cast<double>(s.nnz), 0.2, 0.01) << spec;
  }
}

TEST(Structure, ShuffledCommunitiesAreThePlantedOnesRenumbered) {
  const std::string spec = "gen:communities:n=3000,edge_factor=10,blocks=30,inside=0.95";
  const auto planted = generate<float>(spec), shuffled = generate<float>(spec + ",order=shuffled");
  ASSERT_EQ(planted.nnz(), shuffled.nnz());
  EXPECT_EQ(spgemm_products(planted, planted), spgemm_products(shuffled, shuffled));
  EXPECT_EQ(product_cost(planted, planted).nnz_estimate, product_cost(shuffled, shuffled).nnz_estimate);
  const auto in_diagonal_blocks = [](const Csr<float>& a) {
    Offset inside = 0;
    for (Index i = 0; i < a.rows; ++i) {
      for (const Index j : row_columns(a, i)) inside += i / 100 == j / 100;
    }
    return static_cast<double>(inside) / static_cast<double>(a.nnz());
  };
  EXPECT_GT(in_diagonal_blocks(planted), 0.93);
  EXPECT_LT(in_diagonal_blocks(shuffled), 0.1);
}

TEST(Structure, SymmetricKindsAreSymmetricWithTheirValues) {
  for (const char* spec :
       {"gen:rmat:scale=9,symmetric=yes", "gen:powerlaw:n=500,symmetric=yes",
        "gen:communities:n=500,symmetric=yes", "gen:banded:n=300,fill=0.5", "gen:stencil:points=9,nx=12",
        "gen:fem:nx=4", "gen:road:nx=30,ny=20", "gen:circuit:n=900"}) {
    EXPECT_TRUE(statistics(generate<float>(spec)).numerically_symmetric) << spec;
  }
  EXPECT_FALSE(statistics(generate<float>("gen:rmat:scale=9")).structurally_symmetric);
}

TEST(Structure, KindsShowTheirTraits) {
  const auto road = statistics(generate<float>("gen:road:nx=200"));
  EXPECT_NEAR(road.mean_row, 2.4, 0.05);
  EXPECT_LE(road.max_row, 4);
  EXPECT_EQ(road.diagonal_entries, 0);
  const auto circuit = statistics(generate<float>("gen:circuit:n=20000,rails=2,rail_share=0.05"));
  EXPECT_EQ(circuit.diagonal_entries, circuit.rows);
  EXPECT_NEAR(static_cast<double>(circuit.max_row), 1000, 60);
  const auto lp = statistics(generate<float>("gen:lp"));
  EXPECT_EQ(lp.empty_cols, 0);
  EXPECT_GT(static_cast<double>(lp.max_row), 10 * lp.median_row);
  const auto hypersparse = statistics(generate<float>("gen:hypersparse:n=1e5,nnz=1e3"));
  EXPECT_GE(hypersparse.empty_rows, 99'000);
  const auto powerlaw = statistics(generate<float>("gen:powerlaw:n=20000,edge_factor=8,skew=3"));
  EXPECT_GT(static_cast<double>(powerlaw.max_row), 100 * powerlaw.mean_row);
}

// --- the course pair ---------------------------------------------------------------------------------------

TEST(CoursePair, ReproducesThePublishedCounts) {
  const auto a = generate<double>("gen:d1:which=a"), b = generate<double>("gen:d1:which=b");
  EXPECT_EQ(a.rows, 8191);
  EXPECT_EQ(a.cols, 8191);
  EXPECT_EQ(b.rows, 8191);
  EXPECT_EQ(b.cols, 8191);
  EXPECT_EQ(a.nnz(), 784'379);
  EXPECT_EQ(b.nnz(), 46'796);
  EXPECT_EQ(product_cost(a, b).nnz_estimate, 4'185'601);
  for (const double v : a.values) ASSERT_EQ(v, 1.0);

  // Without the last 15 rows and columns of C, 8176 x 511 entries are left: all 511 columns lie before them.
  const auto columns_of_b = statistics(b);
  EXPECT_EQ(8191 - columns_of_b.empty_cols, 511);
  EXPECT_LT(*std::ranges::max_element(b.col_idx), 8176);
}

TEST(CoursePair, ShrunkPairsKeepFullColumns) {
  for (const Index shrink : {2, 3, 4, 5, 8, 16}) {
    const std::string suffix = ",shrink=" + std::to_string(shrink);
    const auto a = generate<float>("gen:d1:a" + suffix), b = generate<float>("gen:d1:b" + suffix);
    EXPECT_NO_THROW(require_canonical(a, "A"));
    EXPECT_NO_THROW(require_canonical(b, "B"));
    EXPECT_EQ(a.rows, 8191 / shrink);
    EXPECT_EQ(product_cost(a, b).nnz_estimate, Offset{a.rows} * (511 / shrink)) << suffix;
    EXPECT_EQ(b.nnz(), 46'796 / shrink) << suffix;
  }
}

TEST(CoursePair, UniformFormHasTheSameCounts) {
  const auto a = generate<float>("gen:d1:a,form=uniform"), b = generate<float>("gen:d1:b,form=uniform");
  EXPECT_EQ(a.nnz(), 784'379);
  EXPECT_EQ(b.nnz(), 46'796);
  EXPECT_NEAR(static_cast<double>(spgemm_products(a, b)), 784379.0 * 46796.0 / 8191.0, 2e4);
}

// --- twins -------------------------------------------------------------------------------------------------

struct TwinFacts {
  const char* name;
  Index n;
  Offset edges;
  Offset hub_max;
};
constexpr TwinFacts kTwins[] = {
    {"arxiv", 169'343, 1'166'243, 13'155},     {"collab", 235'868, 2'358'104, 0},
    {"citation", 2'927'963, 30'387'995, 0},    {"ddi", 4'267, 2'135'822, 2'234},
    {"protein", 132'534, 79'122'504, 0},       {"ppa", 576'289, 42'463'862, 0},
    {"reddit", 232'965, 114'615'892, 0},       {"products", 2'449'029, 123'718'280, 0},
    {"youtube", 1'138'499, 5'980'886, 28'754}, {"amazon", 1'569'960, 264'339'468, 0},
    {"yelp", 716'847, 13'954'819, 4'886},      {"wikikg2", 2'500'604, 16'109'182, 0},
    {"am", 881'680, 5'668'682, 140'000},
};

void expect_hubs(const Csr<float>& a, Offset hub_max) {
  std::vector<Offset> lengths;
  for (Index i = 0; i < a.rows; ++i) lengths.push_back(a.row_nnz(i));
  std::ranges::sort(lengths, std::greater<>());
  EXPECT_GE(lengths[0], hub_max);
  EXPECT_GE(lengths[1], hub_max * 7 / 10);
  EXPECT_GE(lengths[2], hub_max / 2);
}

TEST(Twins, HaveTheirSizesAtFullScale) {
  for (const TwinFacts& twin : kTwins) {
    if (twin.edges > 3'000'000 && std::string(twin.name) != "am") continue;  // the others take a while
    const auto a = generate<float>("gen:twin:" + std::string(twin.name));
    EXPECT_EQ(a.rows, twin.n) << twin.name;
    EXPECT_EQ(a.cols, twin.n) << twin.name;
    EXPECT_LT(a.nnz(), twin.edges) << "repeats fall out: " << twin.name;
    EXPECT_GT(static_cast<double>(a.nnz()), 0.8 * static_cast<double>(twin.edges)) << twin.name;
    expect_hubs(a, twin.hub_max);
  }
}

TEST(Twins, ShrinkKeepsTheMeanAndThinShortensRows) {
  for (const TwinFacts& twin : kTwins) {
    const auto a = generate<float>("gen:twin:" + std::string(twin.name) + ",shrink=32,thin=4");
    EXPECT_EQ(a.rows, twin.n / 32) << twin.name;
    EXPECT_LE(a.nnz(), twin.edges / 128) << twin.name;
    EXPECT_GT(static_cast<double>(a.nnz()), 0.4 * static_cast<double>(twin.edges) / 128) << twin.name;
    expect_hubs(a, twin.hub_max / 128);
  }
}

/// How many rows are as long as the row before them.
Index rows_like_the_one_before(const Csr<float>& a) {
  Index like = 0;
  for (Index i = 1; i < a.rows; ++i) like += a.row_nnz(i) == a.row_nnz(i - 1);
  return like;
}

TEST(Twins, RunsAreTheSameRowsInAnotherOrder) {
  const auto rows_of = [](const Csr<float>& a, Index begin, Index end) {
    std::vector<std::vector<Index>> rows;
    for (Index i = begin; i < end; ++i) {
      rows.emplace_back(a.col_idx.begin() + a.row_ptr[static_cast<std::size_t>(i)],
                        a.col_idx.begin() + a.row_ptr[static_cast<std::size_t>(i) + 1]);
    }
    std::ranges::sort(rows);
    return rows;
  };
  constexpr Index kBlock = 4096;
  const auto plain = generate<float>("gen:twin:am,shrink=64");
  const auto runs = generate<float>("gen:twin:am,shrink=64,runs=yes");
  EXPECT_EQ(fingerprint(generate<float>("gen:twin:am,shrink=64,runs=no")), fingerprint(plain));
  ASSERT_EQ(runs.rows, plain.rows);
  ASSERT_GT(runs.rows, 3 * kBlock);
  for (Index begin = 0; begin < runs.rows; begin += kBlock) {
    const Index end = std::min(runs.rows, begin + kBlock);
    EXPECT_EQ(rows_of(runs, begin, end), rows_of(plain, begin, end)) << "rows from " << begin << " on";
    for (Index i = begin + 1; i < end; ++i) ASSERT_GE(runs.row_nnz(i), runs.row_nnz(i - 1)) << i;
  }
  EXPECT_GT(rows_like_the_one_before(runs), runs.rows * 9 / 10);
  EXPECT_LT(rows_like_the_one_before(plain), runs.rows / 2);
}

TEST(Twins, MemoryIsKnownBeforehand) {
  // Pattern of reddit: 4 bytes per edge as drawn and as packed, then 4 per value in place of the former.
  EXPECT_NEAR(static_cast<double>(generation_bytes<float>("gen:twin:reddit")), 8 * 114.6e6, 20e6);
  EXPECT_NEAR(static_cast<double>(generation_bytes<double>("gen:twin:reddit")), 12 * 114.6e6, 20e6);
}

// --- values ------------------------------------------------------------------------------------------------

TEST(Values, KeepTheirRanges) {
  const auto uniform = generate<float>("gen:uniform:n=500,per_row=100");
  double sum = 0, squares = 0;
  for (const float v : uniform.values) {
    ASSERT_TRUE(v != 0 && v > -1 && v < 1);
    sum += static_cast<double>(v);
    squares += static_cast<double>(v) * static_cast<double>(v);
  }
  EXPECT_NEAR(sum / 50'000, 0, 0.01);
  EXPECT_NEAR(squares / 50'000, 1.0 / 3, 0.01);

  std::map<float, int> seen;
  for (const float v : generate<float>("gen:uniform:n=500,per_row=100,values=integers").values) ++seen[v];
  ASSERT_EQ(seen.size(), 8U);
  for (const auto& [v, times] : seen) {
    EXPECT_TRUE(v == std::round(v) && v != 0 && std::abs(v) <= 4) << v;
    EXPECT_NEAR(times, 6250, 400) << v;
  }
  for (const float v : generate<float>("gen:uniform:n=50,values=ones").values) ASSERT_EQ(v, 1.0F);
}

TEST(Values, DependOnThePlaceAlone) {
  const auto sparse = to_dense(generate<double>("gen:uniform:n=60,per_row=5"));
  const auto full = to_dense(generate<double>("gen:dense:n=60"));
  for (Index i = 0; i < 60; ++i) {
    for (Index j = 0; j < 60; ++j) EXPECT_TRUE(sparse(i, j) == 0 || sparse(i, j) == full(i, j));
  }
}

// --- specs and errors --------------------------------------------------------------------------------------

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
      {"gen:rmat:n=1.5", {"n=1.5", "whole number"}},
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
      {"gen:uniform:n=10,rows=5,cols=5", {"n, or rows and cols"}},
      {"gen:fixed:n=10,rows=5,cols=5", {"n, or rows and cols"}},
      {"gen:dense:n=0,rows=5,cols=5", {"n, or rows and cols"}},
      {"gen:uniform:n=10,nnz=101", {"101", "100 places"}},
      {"gen:uniform:n=10,nnz=5,per_row=2", {"nnz or per_row"}},
      {"gen:fixed:n=10,per_row=11", {"per_row=11", "10"}},
      {"gen:stencil:points=6", {"points=6", "5, 7, 9, 27"}},
      {"gen:stencil:points=5,nz=3", {"nz", "7 and 27"}},
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
    try {
      generate<float>(c.spec);
      ADD_FAILURE() << "accepted " << c.spec;
    } catch (const Error& e) {
      const std::string message = e.what();
      for (const char* word : c.words)
        EXPECT_NE(message.find(word), std::string::npos) << c.spec << " said: " << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
}

TEST(Spec, RefusesMoreMemoryThanAllowed) {
  const Offset need = generation_bytes<double>("gen:uniform:n=1000,per_row=50");
  EXPECT_NO_THROW(generate<double>("gen:uniform:n=1000,per_row=50", 1, need));
  try {
    generate<double>("gen:uniform:n=1000,per_row=50", 1, need - 1);
    FAIL() << "made a matrix with less memory than it says it needs";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("GB"), std::string::npos) << e.what();
  }
  EXPECT_THROW(generate<double>("gen:uniform:n=2e9,per_row=1000"), Error) << "24 TB";
}

// --- random numbers ----------------------------------------------------------------------------------------

TEST(Random, MixIsSplitMix64) {
  // The published sequence from the state 1234567.
  random::Word state = 1234567;
  for (const random::Word expected : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U,
                                      4593380528125082431U, 16408922859458223821U})
    EXPECT_EQ(random::mix(state += random::kGolden), expected);
}

TEST(Random, ScaleIsTheUpperHalfOfTheProduct) {
  EXPECT_EQ(random::scale(~random::Word{0}, 10), 9U);
  EXPECT_EQ(random::scale(random::Word{1} << 63U, 10), 5U);
  EXPECT_EQ(random::scale(0, 10), 0U);
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

// --- the built-in set --------------------------------------------------------------------------------------

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
