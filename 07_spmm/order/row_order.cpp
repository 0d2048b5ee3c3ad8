// Communities of rows and columns, merged one by one.
//
// The idea: a matrix is a bipartite graph of its rows and its columns, with its non-zeros as edges; a square
// matrix, too, since row i of A and row i of B need not have anything in common. Vertices are taken up once
// each, those with few edges first, and join that neighbour, with all whom it has gathered before, with whom
// they have most edges beyond what chance would give them:
//
//   gain(u, v) = edges between u and v - (rows' edges of u * columns' edges of v + the reverse) / nnz
//
// which is what merging adds to Barber's modularity of bipartite graphs, times nnz. A vertex that gains
// nothing joins none. The result is a set of trees, in which small communities lie together within larger
// ones. Read from the root down, they give an order that is local on all scales, whatever a cache's size.
//
// The far end of an edge is the root of the tree that this end is in by now. When a vertex is taken up, its
// own edges and those of all vertices that joined it are added up by far end. The sums are kept until the
// vertex that it joins is taken up in its turn. So each edge is looked at once on each level of the trees.
//
// Input: any matrix. Without communities (uniform, R-MAT), it joins hubs with what hangs on them, which is
// worth little. Cost: see row_order.hpp.
//
// Sources: merging in this way, for locality: J. Arai, H. Shiokawa, T. Yamamuro, M. Onizuka and S. Iwamura,
// "Rabbit Order: just-in-time parallel reordering for fast graph analysis" (IPDPS 2016), there for the
// vertices of one graph and on many threads. The modularity: M. J. Barber, "Modularity and community detection
// in bipartite networks" (Physical Review E 76, 066102, 2007).

#include "07_spmm/order/row_order.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>

namespace stages::spmm {
namespace {

__extension__ using Wide = __int128;  ///< products of counts of non-zeros, exactly

/// Rows, then columns: together they may be more than an Index counts.
using Vertex = std::uint32_t;
constexpr Vertex kNone = 0xffffffff;

constexpr std::size_t place(Offset i) { return static_cast<std::size_t>(i); }

/// Edges that lead to one vertex.
struct Edges {
  Vertex to = 0;
  Offset count = 0;
};

/// What is known of a vertex and of all who joined it, in one place, because it is asked for at one time.
struct Standing {
  Offset row_edges = 0;     ///< of the rows among them
  Offset column_edges = 0;  ///< of the columns
  Offset shared = 0;        ///< with the vertex that is being taken up
};

/// The rows of each column: column j has row[ptr[j]] .. row[ptr[j + 1] - 1].
struct Columns {
  std::vector<Offset> ptr;
  std::vector<Vertex> row;

  Columns(Index cols, std::span<const Offset> row_ptr, std::span<const Index> col_idx)
      : ptr(place(cols) + 2, 0), row(col_idx.size()) {
    for (const Index column : col_idx) ++ptr[place(column) + 2];
    std::partial_sum(ptr.begin(), ptr.end(), ptr.begin());
    for (std::size_t i = 0; i + 1 < row_ptr.size(); ++i) {
      for (Offset k = row_ptr[i]; k < row_ptr[i + 1]; ++k)
        row[place(ptr[place(col_idx[place(k)]) + 1]++)] = static_cast<Vertex>(i);
    }
    ptr.pop_back();
  }
};

class Communities {
 public:
  Communities(Index cols, std::span<const Offset> row_ptr, std::span<const Index> col_idx)
      : rows_(static_cast<Vertex>(row_ptr.size() - 1)),
        vertices_(rows_ + static_cast<Vertex>(cols)),
        row_ptr_(row_ptr),
        col_idx_(col_idx),
        columns_(cols, row_ptr, col_idx),
        joined_(vertices_),
        first_(vertices_, kNone),
        next_(vertices_, kNone),
        standing_(vertices_),
        taken_up_(vertices_, false),
        sums_(vertices_) {
    std::iota(joined_.begin(), joined_.end(), Vertex{0});
    for (Vertex v = 0; v < vertices_; ++v)
      (v < rows_ ? standing_[v].row_edges : standing_[v].column_edges) = degree(v);
    for (const Vertex v : by_degree()) take_up(v);
  }

  /// The rows, tree by tree, each from its root down.
  std::vector<Index> row_order() const {
    std::vector<Index> order;
    order.reserve(rows_);
    std::vector<Vertex> open;
    for (Vertex root = 0; root < vertices_; ++root) {
      if (joined_[root] != root) continue;
      open.push_back(root);
      while (!open.empty()) {
        const Vertex v = open.back();
        open.pop_back();
        if (v < rows_) order.push_back(static_cast<Index>(v));
        for (Vertex child = first_[v]; child != kNone; child = next_[child]) open.push_back(child);
      }
    }
    return order;
  }

 private:
  Offset degree(Vertex v) const {
    if (v < rows_) return row_ptr_[v + 1] - row_ptr_[v];
    return columns_.ptr[v - rows_ + 1] - columns_.ptr[v - rows_];
  }

  std::vector<Vertex> by_degree() const {
    std::vector<Vertex> order(vertices_);
    std::iota(order.begin(), order.end(), Vertex{0});
    std::stable_sort(order.begin(), order.end(), [&](Vertex u, Vertex v) { return degree(u) < degree(v); });
    return order;
  }

  /// Whom v has joined in the end, or v itself.
  Vertex root_of(Vertex v) {
    while (joined_[v] != v) v = joined_[v] = joined_[joined_[v]];
    return v;
  }

  void add(Vertex v, Edges edges) {
    const Vertex to = root_of(edges.to);
    if (to == v) return;
    Offset& shared = standing_[to].shared;
    if (shared == 0) touched_.push_back(to);
    shared += edges.count;
  }

  /// Adds up, in `shared` of the vertices in touched_, where the edges of v and of those who joined it lead.
  void add_edges(Vertex v) {
    if (v < rows_) {
      for (Offset k = row_ptr_[v]; k < row_ptr_[v + 1]; ++k) {
        add(v, {rows_ + static_cast<Vertex>(col_idx_[place(k)]), 1});
      }
    } else {
      for (Offset k = columns_.ptr[v - rows_]; k < columns_.ptr[v - rows_ + 1]; ++k) {
        add(v, {columns_.row[place(k)], 1});
      }
    }
    for (Vertex child = first_[v]; child != kNone; child = next_[child]) {
      for (const Edges& edges : sums_[child]) add(v, edges);
      sums_[child] = {};
    }
  }

  /// nnz times the gain of the essay above: whole numbers, so that no rounding decides.
  Wide gain(const Standing& v, const Standing& u) const {
    return Wide{u.shared} * std::ssize(col_idx_) - Wide{v.row_edges} * u.column_edges -
           Wide{v.column_edges} * u.row_edges;
  }

  void take_up(Vertex v) {
    add_edges(v);
    taken_up_[v] = true;
    Vertex best = kNone;
    Wide most = 0;
    for (const Vertex u : touched_) {
      const Wide here = gain(standing_[v], standing_[u]);
      if (here > most) {
        most = here;
        best = u;
      }
    }
    if (best != kNone) join(v, best);
    for (const Vertex u : touched_) standing_[u].shared = 0;
    touched_.clear();
  }

  void join(Vertex v, Vertex u) {
    if (!taken_up_[u]) {
      sums_[v].reserve(touched_.size());
      for (const Vertex to : touched_) sums_[v].push_back({to, standing_[to].shared});
    }
    joined_[v] = u;
    next_[v] = first_[u];
    first_[u] = v;
    standing_[u].row_edges += standing_[v].row_edges;
    standing_[u].column_edges += standing_[v].column_edges;
  }

  Vertex rows_, vertices_;
  std::span<const Offset> row_ptr_;
  std::span<const Index> col_idx_;
  Columns columns_;
  std::vector<Vertex> joined_;  ///< itself: nobody. Shortened on the way: the trees are in first_ and next_
  std::vector<Vertex> first_;   ///< the last one that joined
  std::vector<Vertex> next_;    ///< who joined the same one before
  std::vector<Standing> standing_;
  std::vector<bool> taken_up_;
  std::vector<std::vector<Edges>> sums_;  ///< where they lead, of who joined one that is not taken up yet
  std::vector<Vertex> touched_;
};

}  // namespace

std::vector<Index> community_order(Index cols, std::span<const Offset> row_ptr,
                                   std::span<const Index> col_idx) {
  return Communities(cols, row_ptr, col_idx).row_order();
}

std::vector<Index> length_order(std::span<const Offset> row_ptr) {
  std::vector<Index> order(row_ptr.size() - 1);
  std::iota(order.begin(), order.end(), Index{0});
  const auto length = [&](Index i) { return row_ptr[place(i) + 1] - row_ptr[place(i)]; };
  std::ranges::stable_sort(order, std::greater<>(), length);
  return order;
}

double fresh_share(Index cols, std::span<const Offset> row_ptr, std::span<const Index> col_idx,
                   std::span<const Index> order, Offset window) {
  if (col_idx.empty()) return 0;
  std::vector<Offset> last(place(cols), -1);  // the window that asked last
  Offset seen = 0, fresh = 0;
  for (const Index row : order) {
    for (Offset k = row_ptr[place(row)]; k < row_ptr[place(row) + 1]; ++k, ++seen) {
      Offset& asked = last[place(col_idx[place(k)])];
      fresh += asked != seen / window;
      asked = seen / window;
    }
  }
  return static_cast<double>(fresh) / static_cast<double>(seen);
}

}  // namespace stages::spmm
