#include "common/harness/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/matrix/atomic_file.hpp"

namespace stages {
namespace {

/// A CSV field: printable, and quoted where it must be. A spreadsheet takes what begins with one of these for
/// a formula, and a matrix may be a file of any name: an apostrophe in front makes it text.
/// (https://owasp.org/www-community/attacks/CSV_Injection)
std::string quoted(std::string text) {
  if (text.find_first_of("=+-@\t\r\n") == 0) text.insert(text.begin(), '\'');
  text = printable(text);
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

/// Three significant digits of `value` after division by the largest of the units that leaves at least 1.
struct Unit {
  double size;
  const char* name;
};
template <std::size_t N>
std::string with_unit(double value, const Unit (&units)[N]) {
  const Unit* unit = &units[N - 1];
  for (const Unit& candidate : units) {
    if (std::abs(value) >= candidate.size * 0.9995) {
      unit = &candidate;
      break;
    }
  }
  const double scaled = value / unit->size;
  if (std::abs(scaled) >= 1e6) return fmt::format("{:.2e}{}", scaled, unit->name);
  const int decimals = std::abs(scaled) >= 99.95 ? 0 : std::abs(scaled) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", scaled, decimals, unit->name);
}

/// What is known of both times does not tell them apart: of few samples, that they lie beside each other.
bool tied(const ResultRow& a, const ResultRow& b) {
  if (std::isfinite(a.run.noise + b.run.noise)) return !differ(a.run, b.run);
  return a.run.min <= b.run.max && b.run.min <= a.run.max;
}

/// The first digits of a number of which a share is not known; none are where that is half of it.
void round_to_known(double& value, bool& known, double share) {
  known = share < 0.5;
  const double unit = std::pow(10, std::floor(std::log10(std::max(value, 1.0))) - (share < 0.05 ? 1 : 0));
  value = unit > 1 ? std::round(value / unit) * unit : std::ceil(value);
}

}  // namespace

int Results::count(Status status) const {
  return static_cast<int>(std::ranges::count(rows, status, &ResultRow::status));
}

std::vector<const ResultRow*> fastest(std::span<const ResultRow> rows) {
  std::vector<const ResultRow*> all;
  for (const ResultRow& row : rows)
    if (row.ranked()) all.push_back(&row);
  const auto least = std::ranges::min_element(all, {}, [](const ResultRow* row) { return row->run.median; });
  if (least == all.end()) return {};
  std::erase_if(all, [&, best = *least](const ResultRow* row) { return row != best && !tied(*row, *best); });
  return all;
}

void relate_rows(std::span<ResultRow> rows) {
  const auto speedup = [](const ResultRow& other, const ResultRow& row) {
    return tied(other, row) ? 1 : other.run.median / row.run.median;
  };
  const ResultRow* fastest_vendor = nullptr;
  const ResultRow* cheapest = nullptr;  // for one product, prepare included
  for (const ResultRow& row : rows) {
    if (!row.ranked()) continue;
    if (row.vendor && (fastest_vendor == nullptr || row.run.median < fastest_vendor->run.median))
      fastest_vendor = &row;
    if (cheapest == nullptr || row.prepare + row.run.median < cheapest->prepare + cheapest->run.median)
      cheapest = &row;
  }
  for (ResultRow& row : rows) {
    if (!row.ranked()) continue;
    if (fastest_vendor != nullptr && !row.vendor) row.speedup_vendor = speedup(*fastest_vendor, row);
    const auto previous = std::ranges::find(rows, row.previous, &ResultRow::entry);
    if (previous != rows.end() && previous->ranked()) row.speedup_previous = speedup(*previous, row);
    const ResultRow& other = *cheapest;
    const double gain = other.run.median - row.run.median, investment = row.prepare - other.prepare;
    const double of_gain = std::hypot(other.run.noise * other.run.median, row.run.noise * row.run.median),
                 of_investment =
                     std::hypot(other.prepare_noise * other.prepare, row.prepare_noise * row.prepare);
    row.break_even = 0;
    row.break_even_known = true;
    if (&row == cheapest) continue;
    if (gain <= 0) {
      row.break_even = std::numeric_limits<double>::infinity();
      row.break_even_known = -gain > of_gain;
    } else {
      row.break_even = investment / gain;
      round_to_known(row.break_even, row.break_even_known,
                     std::hypot(of_gain / gain, of_investment / investment));
    }
  }
}

void relate_all(Results& results) {
  for (std::span<ResultRow> rest = results.rows; !rest.empty();) {
    const auto end = std::ranges::find_if(rest, [&](const ResultRow& row) {
      const ResultRow& first = rest.front();
      return !same_problem(row.problem, first.problem) || row.mpi != first.mpi || row.ranks != first.ranks;
    });
    const std::span<ResultRow> rows = rest.first(static_cast<std::size_t>(end - rest.begin()));
    relate_rows(rows);
    rest = rest.subspan(rows.size());
  }
}

void measure_copy_again(Exec& exec, Results& results) {
  const double before = exec.copy_bandwidth();
  const auto beyond = [&](const ResultRow& row) {
    return row.copy_bandwidth == before && row.bandwidth_share > kInCache;
  };
  const double now = exec.copy_bandwidth(std::ranges::any_of(results.rows, beyond));
  for (ResultRow& row : results.rows) {
    if (row.copy_bandwidth != before) continue;
    row.bandwidth_share *= before / now;
    row.copy_bandwidth = now;
  }
  for (auto& [key, value] : results.context)
    if (key == "copy_bandwidth_bytes_per_second") value = fmt::format("{:.4g}", now);
}

std::string to_csv(const Results& results) {
  std::string out =
      "matrix,options,operation,type,rows,cols,nnz,entry,status,reason,ranks,prepare_s,load_s,fetch_s,"
      "run_median_s,run_q1_s,run_q3_s,samples,noise,gflops,bandwidth_share,speedup_previous,speedup_peer,"
      "result_nnz,rows_checked,speedup_serial\n";
  for (const ResultRow& r : results.rows) {
    const ProblemFacts& p = r.problem;
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},", quoted(p.matrix), quoted(p.options),
                       to_string(p.op), p.type, p.rows, p.cols, p.nnz, quoted(r.entry), to_string(r.status),
                       quoted(r.reason), r.ranks);
    if (r.timed()) {
      const auto ratio = [](double x) { return x > 0 ? fmt::format("{:.6g}", x) : std::string(); };
      out +=
          fmt::format("{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{},{:.4g},{:.6g},{:.6g},{},{},{},{},{}\n",
                      r.prepare, r.load, r.fetch, r.run.median, r.run.q1, r.run.q3, r.run.samples.size(),
                      r.run.noise, r.gflops, r.bandwidth_share, ratio(r.speedup_previous),
                      ratio(r.speedup_vendor), r.result_nnz, r.check.rows_checked, ratio(r.speedup_serial));
    } else {
      out += fmt::format(",,,,,,,,,,,,,{},\n", r.checked ? fmt::format("{}", r.check.rows_checked) : "");
    }
  }
  for (const auto& [key, value] : results.context) {
    if (key == "part")
      out += fmt::format(",,,,,,,,{},{},{}\n", to_string(Status::skipped),
                         quoted(value + "; what is not above was not reached"), std::string(15, ','));
  }
  return out;
}

std::string format_seconds(double seconds) {
  static constexpr Unit kUnits[] = {{1, " s"}, {1e-3, " ms"}, {1e-6, " us"}, {1e-9, " ns"}};
  return with_unit(seconds, kUnits);
}

std::string format_noise(double share) {
  if (std::isinf(share)) return "?";
  return share >= 1 ? ">99%" : fmt::format("{:.1f}%", 100 * share);
}

std::string printable(std::string_view bytes) {
  std::string out;
  const std::string text = valid_utf8(std::string(bytes));
  for (std::size_t k = 0, length = 0; k < text.size(); k += length) {
    const auto first = static_cast<unsigned char>(text[k]);
    length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    const std::string_view one = std::string_view(text).substr(k, length);
    const auto within = [&](std::string_view from, std::string_view to) { return from <= one && one <= to; };
    const bool raw = first >= 0x20 && first != 0x7f && !within("\xc2\x80", "\xc2\x9f") &&
                     !within("\xe2\x80\x8e", "\xe2\x80\x8f") && !within("\xe2\x80\xaa", "\xe2\x80\xae") &&
                     !within("\xe2\x81\xa6", "\xe2\x81\xa9");
    for (const char c : one)
      out += raw ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string as_markup(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '&'    ? "&amp;"
           : c == '<'  ? "&lt;"
           : c == '>'  ? "&gt;"
           : c == '"'  ? "&quot;"
           : c == '\n' ? "&#10;"
                       : std::string(1, static_cast<unsigned char>(c) < ' ' && c != '\t' ? ' ' : c);
  for (const char* const none : {"\xef\xbf\xbe", "\xef\xbf\xbf"})  // U+FFFE and U+FFFF
    for (std::size_t at = 0; (at = out.find(none, at)) != std::string::npos;)
      out.replace(at, 3, "\xef\xbf\xbd");
  return out;
}

std::string format_bytes(double bytes) {
  static constexpr Unit kUnits[] = {{1e12, " TB"}, {1e9, " GB"}, {1e6, " MB"}, {1e3, " kB"}, {1, " B"}};
  return with_unit(bytes, kUnits);
}

std::string format_count(double count) {
  static constexpr Unit kUnits[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
  return count < 1000 ? fmt::format("{:.0f}", count) : with_unit(count, kUnits);
}

std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (std::size_t k = digits.size(); k > 3;) digits.insert(k -= 3, 1, ',');
  return digits;
}

void write_file(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace stages
