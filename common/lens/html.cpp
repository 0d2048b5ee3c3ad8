#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>

#include "common/harness/results.hpp"
#include "common/lens/source.hpp"

namespace stages {

extern const std::string_view lens_page_css;  // page.css, embedded by CMake

namespace {

using simt::Access;
using simt::Request;
using simt::Space;

/// The lanes of a request as one text: "0" or "0-31" or "0, 8, 16".
std::string lanes_text(unsigned lanes) {
  std::string text;
  for (unsigned rest = lanes; rest != 0;) {
    const auto first = static_cast<unsigned>(std::countr_zero(rest));
    const auto count = static_cast<unsigned>(std::countr_one(rest >> first));
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    if (count > 1) text += fmt::format("-{}", first + count - 1);
    rest = first + count == simt::kLanes ? 0 : rest >> (first + count) << (first + count);
  }
  return text;
}

std::string cell(unsigned lanes) {
  return lanes == 0 ? "<i></i>" : fmt::format("<i class=lane>{}</i>", lanes_text(lanes));
}

/// The lanes that touch the address, by address.
std::map<std::uint64_t, unsigned> lanes_of(const Request& request, std::uint64_t piece) {
  std::map<std::uint64_t, unsigned> lanes;
  simt::each_lane(request.lanes, [&](unsigned lane) {
    for (std::uint64_t at = request.address[lane] / piece;
         at <= (request.address[lane] + request.bytes - 1) / piece; ++at) {
      lanes[at] |= 1u << lane;
    }
  });
  return lanes;
}

/// Its sectors, and in each the lanes that ask for its pieces.
std::string drawing_of_sectors(const Request& request) {
  const std::map<std::uint64_t, unsigned> lanes = lanes_of(request, request.bytes);
  std::map<std::uint64_t, std::string> sectors;
  for (const std::uint64_t sector : simt::Sectors(request)) {
    std::string& cells = sectors[sector];
    const std::uint64_t pieces = simt::kSectorBytes / request.bytes;
    for (std::uint64_t p = sector * pieces; p < (sector + 1) * pieces; ++p) {
      const auto found = lanes.find(p);
      cells += cell(found == lanes.end() ? 0 : found->second);
    }
  }
  std::string text;
  for (const auto& [sector, cells] : sectors) text += fmt::format("<div>{}</div>", cells);
  return text;
}

/// The 32 banks, and in each a cell for every word that it must give, with the lanes that want it.
std::string drawing_of_banks(const Request& request) {
  std::array<std::string, simt::kLanes> banks;
  for (const auto& [word, lanes] : lanes_of(request, simt::kBankBytes))
    banks[word % simt::kLanes] += cell(lanes);
  std::string text;
  for (const std::string& cells : banks)
    text += fmt::format("<div class=bank>{}</div>", cells.empty() ? cell(0) : cells);
  return text;
}

/// What the drawing of a request shows.
const char* note_on(Space space, Access access) {
  if (space == Space::global)
    return "Each box is a sector of 32 bytes; numbers are the lanes that ask for its pieces, and "
           "empty pieces are asked for by nobody.";
  if (access == Access::atomic)
    return "Each column is a bank, each cell below another a word, with the lanes that change it. Each lane "
           "takes a wavefront of its own, or two if it compares and swaps; of lanes that add floats one of a "
           "bank comes through, with two wavefronts for all banks.";
  return "Each column is a bank; each cell below another is a word that it gives in a wavefront of its own, "
         "with the lanes that want it.";
}

std::string drawing(const LensSite& site) {
  const Request& request = site.counts.worst;
  const bool global = site.counts.space == Space::global;
  return fmt::format(
      "<details><summary>its worst request: {} {}</summary><p class=note>{}</p><div "
      "class=request>{}</div></details>",
      site.counts.worst_cost, global ? "sectors" : "wavefronts",
      note_on(site.counts.space, site.counts.access),
      global ? drawing_of_sectors(request) : drawing_of_banks(request));
}

/// By memory: of the lines of a kernel together, or of the heaviest line of the page.
using Costs = std::map<Space, std::uint64_t>;

std::string row(const std::string& code, const LensSite& site, Costs& of_kernel, Costs& heaviest) {
  const simt::SiteCounts& sum = site.counts;
  const auto of = [&](Costs& all) {
    return static_cast<double>(sum.cost) / static_cast<double>(std::max<std::uint64_t>(all[sum.space], 1));
  };
  return fmt::format(
      "<tr class=hot style=\"--share: {:.3f}\"><td class=text>{} {} {} "
      "B<td>{}<td>{:.1f}<td>{:.2f}<td>{:.2f}<td>{}<td>{:.1f} %<td class=code>{}{}</tr>\n",
      0.6 * of(heaviest), name_of(sum.space), name_of(sum.access), sum.bytes, counted(sum.requests),
      sum.of_requests(sum.lanes), sum.of_requests(sum.cost), sum.of_requests(sum.least),
      sum.space == Space::global ? fmt::format("{:.0f} %", 100 * sum.wanted_share()) : "",
      100 * of(of_kernel), code, drawing(site));
}

std::string kernel_html(const LensKernel& kernel, Costs& heaviest) {
  Costs cost;
  for (const simt::SiteCounts& sum : sums_of({&kernel, 1})) cost[sum.space] += sum.cost;
  std::string text = fmt::format(
      "<h3>{}</h3>\n<p>{} launch{} of {} blocks, {} threads in all. Requests of the busiest warp: {:.1f} "
      "times the mean one's; of the busiest block: {:.1f} times.</p>\n",
      as_markup(kernel.name), kernel.counts.launches, kernel.counts.launches == 1 ? "" : "es",
      counted(kernel.counts.blocks), counted(kernel.counts.threads), kernel.counts.warp.over_mean(),
      kernel.counts.block.over_mean());
  for (const SourceFile& file : source_of(kernel, false)) {
    text += fmt::format(
        "<div class=scroll><table class=lines><tr><th "
        "class=text>access<th>requests<th>lanes<th>takes<th>least<th>wanted<th>of the kernel"
        "<th class=text>{}</tr>\n",
        as_markup(file.name));
    for (const SourceLine& line : file.lines) {
      const std::string code =
          fmt::format("<span class=number>{:>4}</span> {}", line.number, as_markup(line.text));
      if (line.waits > 0) {
        text += fmt::format("<tr><td class=text>wait<td>{}<td><td><td><td><td><td class=code>{}</tr>\n",
                            counted(line.waits), code);
      }
      for (const LensSite* site : line.sites)
        text += row(code + as_markup(callers(*site)), *site, cost, heaviest);
    }
    text += "</table></div>\n";
  }
  return text;
}

}  // namespace

std::string lens_html(const std::string& title, std::span<const LensView> views) {
  std::string text =
      "<p>What each line asked of memory in one product, counted on the executor; nothing here is a time. "
      "The darker a line, the more sectors (global memory) or wavefronts (shared memory) it takes, beside "
      "the heaviest line of this page. <em>Takes</em>: sectors or wavefronts of a request; <em>least</em>: "
      "if the same bytes lay side by side; <em>wanted</em>: of the bytes in the sectors.</p>\n";
  Costs heaviest;
  for (const LensView& view : views)
    for (const LensKernel& kernel : view.kernels)
      for (const LensSite& site : kernel.sites)
        heaviest[site.counts.space] = std::max(heaviest[site.counts.space], site.counts.cost);
  for (const LensView& view : views) {
    text += fmt::format("<h2>{}</h2>\n", as_markup(view.entry));
    if (!view.problem.empty())
      text += fmt::format("<p>Only a part was counted: {}</p>\n", as_markup(view.problem));
    for (const LensKernel& kernel : view.kernels) text += kernel_html(kernel, heaviest);
  }
  text += fmt::format("<h2>In all</h2>\n<pre>{}</pre>\n", as_markup(lens_comparison(views)));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>\n{1}</style></head><body><main>\n<h1>{0}</h1>\n{2}</main></body></html>\n",
      as_markup(title), lens_page_css, text);
}

}  // namespace stages
