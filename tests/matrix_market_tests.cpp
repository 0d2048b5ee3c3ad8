// Reading Matrix Market: the hand-made files of data/matrix_market, and what happens when files misbehave.
// STAGES_MM_CONFORMANCE may name another directory of files with an EXPECTED.tsv of the same form, which is
// then run as well.

#include "common/matrix/matrix_market.hpp"

#include <zlib.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/expect.hpp"

namespace stages {
namespace {

namespace fs = std::filesystem;

const fs::path kFiles = STAGES_MATRIX_MARKET_FILES;

/// A row of EXPECTED.tsv: values by the names in its first line.
using Row = std::map<std::string, std::string>;

std::vector<Row> read_table(const fs::path& path) {
  const auto split = [](const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, '\t');) cells.push_back(cell);
    return cells;
  };
  std::ifstream file(path);
  std::string line;
  std::vector<Row> rows;
  if (!std::getline(file, line)) return rows;
  const std::vector<std::string> names = split(line);
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split(line);
    for (Row& row = rows.emplace_back(); const std::string& name : names) {
      const auto k = static_cast<std::size_t>(&name - names.data());
      row[name] = k < cells.size() ? cells[k] : "";
    }
  }
  return rows;
}

/// What reading a file gave, in the terms of the table.
struct Outcome {
  std::optional<std::string> error;
  ReadReport report;
  Offset expanded = 0;  ///< entries after symmetry was expanded, before repeats were summed
  long double sum = 0, magnitude = 0;
  long double sum_by_place = 0;  ///< of value times 100 row + column, from 1
};

Outcome read_file(const std::string& path) {
  Outcome out;
  try {
    const Csr<double> a = read_matrix_market<double>(path, {}, &out.report);
    require_canonical(a, "the matrix that was read");
    for (Index i = 0; i < a.rows; ++i)
      for (std::size_t k = 0; k < row_values(a, i).size(); ++k) {
        const long double v = row_values(a, i)[k];
        out.sum += v;
        out.magnitude += std::abs(v);
        out.sum_by_place += v * (100.0L * (i + 1) + row_columns(a, i)[k] + 1);
      }
    out.expanded = a.nnz() + out.report.repeated;
    const MatrixMarketHeader& h = out.report.header;
    if (h.format == MatrixMarketHeader::Format::array) {
      // An array file holds zeros too; only its dense form shows that all were there.
      const Dense<double> dense = read_matrix_market_dense<double>(path);
      EXPECT_EQ(dense.rows, a.rows);
      EXPECT_EQ(dense.cols, a.cols);
      long double sum = 0;
      for (const double v : dense.data) sum += v;
      EXPECT_EQ(sum, out.sum);
      out.expanded = std::ssize(dense.data);
      if (h.symmetry == MatrixMarketHeader::Symmetry::skew_symmetric) out.expanded -= h.rows;
    }
  } catch (const Error& error) {
    out.error = error.what();
  }
  return out;
}

/// Their names, in the order of the enumerations.
constexpr const char* kFormats[] = {"coordinate", "array"};
constexpr const char* kFields[] = {"real", "integer", "pattern"};
constexpr const char* kSymmetries[] = {"general", "symmetric", "skew-symmetric"};

void expect_accepted(const Row& row, const Outcome& got) {
  ASSERT_FALSE(got.error) << *got.error;
  const MatrixMarketHeader& h = got.report.header;
  EXPECT_EQ(std::to_string(h.rows), row.at("rows"));
  EXPECT_EQ(std::to_string(h.cols), row.at("cols"));
  EXPECT_EQ(std::to_string(h.stored), row.at("stored"));
  EXPECT_EQ(std::to_string(got.expanded), row.at("expanded_nnz"));
  EXPECT_EQ(kFormats[static_cast<std::size_t>(h.format)], row.at("format"));
  EXPECT_EQ(kFields[static_cast<std::size_t>(h.field)], row.at("field"));
  EXPECT_EQ(kSymmetries[static_cast<std::size_t>(h.symmetry)], row.at("symmetry"));
  const long double sum = std::strtold(row.at("sum_real").c_str(), nullptr);
  EXPECT_TRUE(std::isnan(sum) ? std::isnan(got.sum) : std::abs(got.sum - sum) <= 1e-14L * got.magnitude)
      << got.sum << " is not " << sum;
  if (!row.contains("sum_by_place") || std::isnan(sum)) return;
  const long double by_place = std::strtold(row.at("sum_by_place").c_str(), nullptr);
  EXPECT_LE(std::abs(got.sum_by_place - by_place), 1e-14L * std::abs(by_place));
}

/// One line, that starts with the file's name and a line number.
void expect_located(const std::string& path, const std::string& message) {
  EXPECT_FALSE(has(message, "\n"));
  ASSERT_TRUE(starts(message, path + ":"));
  const char after = message[path.size() + 1];
  EXPECT_TRUE(after >= '1' && after <= '9') << message;
  EXPECT_TRUE(has(message, "; ")) << "how to mend it?";
}

void run_table(const fs::path& directory) {
  const std::vector<Row> table = read_table(directory / "EXPECTED.tsv");
  ASSERT_FALSE(table.empty()) << directory << " has no EXPECTED.tsv";
  for (const Row& row : table) {
    SCOPED_TRACE(row.at("file"));
    const std::string path = (directory / row.at("file")).string(), verdict = row.at("verdict");
    ASSERT_TRUE(fs::exists(path));
    const Outcome got = read_file(path);
    if (path.ends_with(".bz2")) {
      ASSERT_TRUE(got.error);
      EXPECT_TRUE(has(*got.error, "bzip2"));
      continue;
    }
    if (verdict == "reject") {
      ASSERT_TRUE(got.error) << "was accepted";
      expect_located(path, *got.error);
      if (row.contains("message")) {
        EXPECT_TRUE(starts(*got.error, path + ":" + row.at("line") + ": "));
        EXPECT_TRUE(has(*got.error, row.at("message")));
      }
    } else if (row.at("field") == "complex" && got.error && !has(*got.error, "'vector'")) {
      EXPECT_TRUE(has(*got.error, "complex"));
    } else if (std::strtold(row.at("rows").c_str(), nullptr) > 2147483647.0L) {
      ASSERT_TRUE(got.error) << "was accepted";
      EXPECT_TRUE(has(*got.error, "2147483647"));
    } else if (verdict == "accept" || (verdict == "permissive" && !got.error)) {
      expect_accepted(row, got);
    } else {
      ASSERT_EQ(verdict, "permissive");
      expect_located(path, *got.error);
    }
  }
}

TEST(MatrixMarketConformance, OwnFilesAllOfWhichTheTableHas) {
  run_table(kFiles);
  std::set<std::string> listed;
  for (const Row& row : read_table(kFiles / "EXPECTED.tsv")) listed.insert(row.at("file"));
  for (const char* kind : {"accept", "reject"}) {
    for (const auto& file : fs::directory_iterator(kFiles / kind))
      EXPECT_TRUE(listed.contains(std::string(kind) + "/" + file.path().filename().string())) << file.path();
  }
}

TEST(MatrixMarketConformance, OtherFiles) {
  const char* const directory = std::getenv("STAGES_MM_CONFORMANCE");
  if (directory == nullptr)
    GTEST_SKIP() << "set STAGES_MM_CONFORMANCE to a directory with EXPECTED.tsv to run its files";
  run_table(directory);
}

template <class T = double>
Csr<T> parse(std::string_view text, const ReadOptions& options = {}, ReadReport* report = nullptr) {
  MemorySource source(text);
  return read_matrix_market<T>(source, "text", options, report);
}

template <class T = double>
Dense<T> parse_dense(std::string_view text, Layout layout = Layout::row_major,
                     const ReadOptions& options = {}) {
  MemorySource source(text);
  return read_matrix_market_dense<T>(source, "text", layout, options);
}

std::string refusal(std::string_view text, const ReadOptions& options = {}) {
  return error_of([&] { parse(text, options); });
}

const std::string kGeneral = "%%MatrixMarket matrix coordinate real general\n";

/// A source that hands out a few bytes at a time, as pipes and packed files may.
class Trickle : public ByteSource {
 public:
  Trickle(std::string_view bytes, std::size_t step) : inner_(bytes), step_(step) {}
  std::size_t read(std::span<char> to) override { return inner_.read(to.first(std::min(step_, to.size()))); }
  void rewind() override { inner_.rewind(); }
  Offset size() const override { return -1; }

 private:
  MemorySource inner_;
  std::size_t step_;
};

TEST(MatrixMarketReader, PlacesEntriesMirrorsThemWithTheirSignAndSumsRepeatsInFileOrder) {
  ReadReport report;
  EXPECT_TRUE(same(parse(kGeneral + "3 4 4\n3 4 4\n1 2 1\n3 1 3\n1 1 2\n"),
                   to_csr(coo<double>(3, 4, {{0, 0, 2}, {0, 1, 1}, {2, 0, 3}, {2, 3, 4}}))));
  EXPECT_TRUE(same(parse("%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 2\n2 1 4\n1 3 5\n"),
                   to_csr(coo<double>(3, 3, {{0, 1, -4}, {0, 2, 5}, {1, 0, 4}, {2, 0, -5}}))));
  // (1e16 + 1) - 1e16 is 0 in this order and 1 in another.
  EXPECT_TRUE(same(parse(kGeneral + "1 1 3\n1 1 1e16\n1 1 1\n1 1 -1e16\n", {}, &report),
                   to_csr(coo<double>(1, 1, {{0, 0, 0}}))));
  EXPECT_EQ(report.repeated, 2);
}

TEST(MatrixMarketReader, DoesNotDependOnHowTheBytesArrive) {
  std::string text = kGeneral + "40 40 300\n";
  std::mt19937_64 random(3);
  for (int k = 0; k < 300; ++k) {
    text += fmt::format("{} {}{} {}\n", 1 + k % 40, k % 7 == 0 ? " " : "", 1 + k * 7 % 40, 0.1 * k - 7);
    if (k % 11 == 0) text += "% a comment\r\n";
  }
  const Csr<double> whole = parse(text);
  for (const std::size_t step : {1, 2, 7, 63, 1000}) {
    Trickle source(text, step);
    EXPECT_TRUE(same(read_matrix_market<double>(source, "text"), whole)) << step;
  }
}

TEST(MatrixMarketReader, ReadsTheZeroBasedDialectOnRequest) {
  const std::string text =
      "%MatrixMarket matrix coordinate real general\n4 4 5\n0 -1 1.0\n0 0 1.0\n3 3 1.0\n3 4 1.0\n-1 2 1.0\n";
  ReadReport report;
  const Csr<float> a = parse<float>(text, {.index_base = 0, .drop_out_of_range = true}, &report);
  EXPECT_EQ(a.nnz(), 2);
  EXPECT_EQ(a.col_idx, (Buffer<Index>{0, 3}));
  EXPECT_EQ(report.dropped, 3);
  EXPECT_TRUE(starts(refusal(kGeneral + "4 4 1\n0 -1 1.0\n", {.index_base = 0}),
                     "text:3: the entry at row 0, column -1"));
  EXPECT_NE(refusal(text, {.index_base = 2}), "");
}

TEST(MatrixMarketReader, RefusesNonFiniteValuesOnRequest) {
  const std::string text = kGeneral + "1 2 2\n1 1 1\n1 2 -inf\n";
  ReadReport report;
  EXPECT_EQ(parse(text, {}, &report).values[1], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(report.non_finite, 1);
  EXPECT_TRUE(starts(refusal(text, {.allow_non_finite = false}),
                     "text:4: the value '-inf' is not finite; correct it, or multiply by `stages multiply "
                     "--no-check`"));
  const std::string sums = kGeneral + "2 2 4\n2 1 1e308\n1 1 1\n2 1 9e307\n2 2 1\n";
  EXPECT_TRUE(std::isinf(parse(sums).values[1]));
  EXPECT_TRUE(starts(refusal(sums, {.allow_non_finite = false}),
                     "text:5: the entries at row 2, column 1 add up to more than a 64-bit float"));
  const std::string mirrored = "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n2 1 2e38\n2 1 2e38\n";
  EXPECT_TRUE(starts(error_of([&] { parse<float>(mirrored, {.allow_non_finite = false}); }),
                     "text:4: the entries at row 1, column 2 add up to more than a 32-bit float"));
}

TEST(MatrixMarketReader, RefusesWhatDoesNotFitIntoFloat) {
  const std::string text = kGeneral + "1 1 1\n1 1 3.5e38\n";
  EXPECT_EQ(parse<double>(text).values[0], 3.5e38);
  EXPECT_TRUE(has(error_of([&] { parse<float>(text); }), "32-bit float"));
  EXPECT_EQ(parse<float>(kGeneral + "1 1 1\n1 1 1e-60\n").values[0], 0.0f);
  // Between two floats; by way of double it would be rounded twice, to the wrong one.
  EXPECT_EQ(parse<float>(kGeneral + "1 1 1\n1 1 1.00000017881393432617187499\n").values[0], 0x1.000002p0f);
}

TEST(MatrixMarketReader, AsksForNoMoreMemoryThanAllowed) {
  const std::string text = kGeneral + "1000 1000 1\n1 1 1\n";
  EXPECT_EQ(parse(text, {.max_bytes = 100'000}).nnz(), 1);
  const std::string dense = error_of([&] { parse_dense(text, Layout::row_major, {.max_bytes = 100'000}); });
  for (const std::string& message : {refusal(text, {.max_bytes = 8000}), dense})
    EXPECT_TRUE(starts(message, "text:2: the 1000 x 1000 matrix takes"));
}

TEST(MatrixMarketReader, ReadsDenseInBothLayouts) {
  const std::string text = "%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6\n";
  EXPECT_EQ(parse_dense<float>(text).data, (Buffer<float>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(parse_dense<float>(text, Layout::col_major).data, (Buffer<float>{1, 2, 3, 4, 5, 6}));
  const std::string sparse = "%%MatrixMarket matrix coordinate integer symmetric\n2 2 2\n2 1 7\n2 2 3\n";
  EXPECT_EQ(parse_dense<float>(sparse).data, (Buffer<float>{0, 7, 7, 3}));
}

TEST(MatrixMarketReader, CountsIntegersThatAreRounded) {
  const std::string text =
      "%%MatrixMarket matrix coordinate integer general\n5 1 5\n1 1 9007199254740993\n2 1 -9007199254740992\n"
      "3 1 18446744073709551615\n4 1 16777217\n5 1 36028797018963968\n";
  ReadReport report;
  const Csr<double> a = parse(text, {}, &report);
  EXPECT_EQ(a.values, (Buffer<double>{9007199254740992, -9007199254740992, 18446744073709551616.0, 16777217,
                                      36028797018963968}));
  EXPECT_EQ(report.rounded, 2);
  parse<float>(text, {}, &report);
  EXPECT_EQ(report.rounded, 3);
  // Of real values nobody expects anything else.
  parse(kGeneral + "1 1 1\n1 1 9007199254740993\n", {}, &report);
  EXPECT_EQ(report.rounded, 0);
  parse("%%MatrixMarket matrix array integer general\n2 1\n-9007199254740993\n1\n", {}, &report);
  EXPECT_EQ(report.rounded, 1);
}

/// Text as gzip packs it: a member. Several of them, one after another, are their texts joined.
std::string packed(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int k = 0; k < times; ++k) out += text;
  return out;
}

/// What reading a packed file complains about; empty where it does not.
std::string complaint(const std::string& file, const ReadOptions& options = {}) {
  return error_of([&] {
    const auto source = unpacked(std::make_unique<MemorySource>(file));
    read_matrix_market<double>(*source, "text", options);
  });
}

TEST(MatrixMarketCompressed, KilobytesDoNotBecomeGigabytesOfText) {
  const std::string file =
      packed(kGeneral + "10 10 60000000\n") + repeated(packed(repeated("1 1 1\n", 100000)), 600);
  ASSERT_LT(file.size(), 1u << 20);
  EXPECT_TRUE(has_all(complaint(file), {"unfold to more than 100 times their size", "gunzip"}));
}

TEST(MatrixMarketCompressed, EntriesAreSeenBeforeRowsTakeMemory) {
  for (const std::string sizes : {"coordinate real general\n2000000000 7 2000000000\n1 1 1\n",
                                  "array real general\n2000000000 7\n1\n"}) {
    const std::string file = packed("%%MatrixMarket matrix " + sizes);
    EXPECT_TRUE(has(complaint(file, {.max_bytes = 1'000'000}), "the file ends after 1 of"));
  }
}

TEST(MatrixMarketCompressed, HoldsEntriesRatherThanComments) {
  std::mt19937_64 random(5);
  std::string noise;  // packs too badly to be told by its size
  while (noise.size() < (1u << 20)) noise += fmt::format("% {:016x}\n", random());
  const std::string comments = packed(noise);
  const std::string blanks = packed(repeated("1 1 " + std::string(5000, ' ') + "1\n", 100));
  const auto expect_told = [](const std::string& file) {
    EXPECT_TRUE(has(complaint(file), "remove comments and blanks"));
  };
  const std::string size = "1 1 1\n", entry = "1 1 1\n";
  expect_told(packed(kGeneral) + repeated(comments, 70) + packed(size + entry));
  expect_told(packed(kGeneral + size) + repeated(comments, 70) + packed(entry));
  expect_told(packed(kGeneral + "1 1 20000\n") + repeated(blanks, 200));
  expect_told(packed("%%MatrixMarket matrix array real general\n1 1\n") + repeated(comments, 70) +
              packed("1\n"));
  EXPECT_EQ(
      complaint(packed(kGeneral) + repeated(comments, 30) + packed(size + entry) + repeated(comments, 30)),
      "");
}

TEST(MatrixMarketCompressed, MembersMayEndWithZerosWhereverBlocksDo) {
  for (const std::size_t end : {65'535, 65'536, 65'537, 131'072}) {
    std::string file = packed(kGeneral + "2 2 3\n1 1 1\n");
    file.resize(end);
    EXPECT_EQ(complaint(file + packed("1 2 1\n2 2 1\n")), "") << end;
  }
}

TEST(MatrixMarketReader, AFileThatChangesWhileItIsReadIsAnError) {
  class Changing : public MemorySource {
   public:
    using MemorySource::MemorySource;
    void rewind() override {
      static_cast<MemorySource&>(*this) = MemorySource("%%MatrixMarket matrix array real general\n1 1\n1\n");
    }
  };
  Changing source("%%MatrixMarket matrix array real general\n2 1\n1\n2\n");  // a dense one is read twice
  EXPECT_TRUE(has(error_of([&] { read_matrix_market_dense<double>(source, "text"); }), "was changed"));
}

}  // namespace
}  // namespace stages
