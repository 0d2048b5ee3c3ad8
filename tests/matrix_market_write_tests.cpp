// Writing Matrix Market: what is written is read back, and what happens when files or disks misbehave.

#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/matrix/matrix_market.hpp"
#include "tests/expect.hpp"

namespace stages {
namespace {

namespace fs = std::filesystem;

class MatrixMarketWriter : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "matrix_market.XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string file(const std::string& name) const { return (directory_ / name).string(); }
  std::string contents(const std::string& name) const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(directory_))
      out.push_back(entry.path().filename().string());
    return out;
  }

  fs::path directory_;
};

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// Values of every exponent, subnormals, zeros of both signs and infinities among them.
template <class T>
Csr<T> any_values() {
  Csr<T> a(300, 700);  // packed, too, more than a few blocks of the reader
  std::mt19937_64 random(9);
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < a.cols; j += 1 + static_cast<Index>(random() % 3)) {
      T value = std::bit_cast<T>(static_cast<Bits<T>>(random()));
      if (std::isnan(value)) value = std::numeric_limits<T>::infinity();
      a.col_idx.push_back(j);
      a.values.push_back(value);
    }
    a.row_ptr[static_cast<std::size_t>(i) + 1] = a.nnz();
  }
  a.values[0] = T{0};
  a.values[1] = -T{0};
  a.values[2] = std::numeric_limits<T>::denorm_min();
  a.values[3] = std::numeric_limits<T>::max();
  a.values[4] = -std::numeric_limits<T>::infinity();
  return a;
}

template <class T>
void round_trip(const std::string& path) {
  const Csr<T> a = any_values<T>();
  write_matrix_market(path, a);
  const Csr<T> b = read_matrix_market<T>(path);
  ASSERT_TRUE(same(a, b));
  EXPECT_EQ(std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(T)), 0) << "signs of 0";
}

TEST_F(MatrixMarketWriter, CsrComesBackBitForBit) {
  round_trip<double>(file("a.mtx"));
  round_trip<float>(file("b.mtx"));
  round_trip<double>(file("c.mtx.gz"));
  EXPECT_TRUE(contents("c.mtx.gz").starts_with("\x1f\x8b"));
  EXPECT_TRUE(contents("a.mtx").starts_with("%%MatrixMarket matrix coordinate real general\n300 700 "));
}

TEST_F(MatrixMarketWriter, DenseComesBackBitForBit) {
  for (const Layout layout : {Layout::row_major, Layout::col_major}) {
    Dense<float> a(5, 3, layout, 9);
    std::fill(a.data.begin(), a.data.end(), 99.0f);  // padding, which must not be written
    for (Index i = 0; i < 5; ++i)
      for (Index j = 0; j < 3; ++j) a(i, j) = static_cast<float>(i) / 7 - static_cast<float>(j);
    write_matrix_market(file("d.mtx"), a);
    const Dense<float> b = read_matrix_market_dense<float>(file("d.mtx"));
    for (Index k = 0; k < 15; ++k) EXPECT_EQ(a(k / 3, k % 3), b(k / 3, k % 3)) << k;
  }
}

TEST_F(MatrixMarketWriter, EmptyMatrices) {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{0, 0}, {0, 4}, {3, 0}, {2, 2}}) {
    write_matrix_market(file("e.mtx"), Csr<double>(rows, cols));
    EXPECT_TRUE(same(read_matrix_market<double>(file("e.mtx")), Csr<double>(rows, cols)));
    if (rows > 0 && cols > 0) continue;
    write_matrix_market(file("f.mtx"), Dense<double>(rows, cols));
    EXPECT_EQ(read_matrix_market_dense<double>(file("f.mtx")).cols, cols);
  }
}

TEST_F(MatrixMarketWriter, FollowsALinkAndKeepsIt) {
  std::ofstream(file("target.mtx")) << "old";
  fs::create_symlink("target.mtx", file("link.mtx"));
  write_matrix_market(file("link.mtx"), Csr<double>(1, 1));
  EXPECT_TRUE(fs::is_symlink(file("link.mtx")));
  EXPECT_TRUE(contents("target.mtx").starts_with("%%MatrixMarket"));
}

TEST_F(MatrixMarketWriter, AFileThatMayNotGrowLeavesTheOldOneWhole) {
  std::ofstream(file("a.mtx")) << "old";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 10000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);  // the kernel now also sends SIGXFSZ, which ends programs
  const std::string plain = error_of([&] { write_matrix_market(file("a.mtx"), any_values<double>()); });
  const std::string packed = error_of([&] { write_matrix_market(file("b.mtx.gz"), any_values<double>()); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(starts(plain, file("a.mtx") + ": writing stopped (File too large)"));
  EXPECT_TRUE(starts(packed, file("b.mtx.gz") + ": writing stopped (File too large)"));
  EXPECT_EQ(contents("a.mtx"), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"a.mtx"});
}

TEST_F(MatrixMarketWriter, NamesPlacesThatCannotBeWritten) {
  fs::create_directory(file("taken"));
  for (const std::string& path : {file("no/such/a.mtx"), file("taken")})
    EXPECT_TRUE(starts(error_of([&] { write_matrix_market(path, Csr<double>(1, 1)); }), path));
  EXPECT_EQ(names(), std::vector<std::string>{"taken"});
}

TEST_F(MatrixMarketWriter, TemporaryFilesOfOthersStay) {
  const std::string taken = fmt::format("a.mtx.{}-0.tmp", ::getpid());
  std::ofstream(file(taken)) << "another's";
  write_matrix_market(file("a.mtx"), Csr<double>(1, 1));
  EXPECT_EQ(contents(taken), "another's");
  EXPECT_EQ(names().size(), 2u);
}

}  // namespace
}  // namespace stages
