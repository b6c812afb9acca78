#include "draw/serve_plan_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/text/text.h"
#include "draw/category_color.h"
#include "draw/svg.h"
#include "plan/report/model_text.h"

namespace tessera {
namespace {

using serve::ServeEstimate;
using serve::ServeReport;
using serve::StageEstimate;

constexpr double kMargin = 16, kLabel = 150, kCell = 190, kGap = 18, kBar = 22, kRow = 70;
constexpr double kGapColumn = 26;
constexpr double kLeastPart = 2;   // of a part that is there at all
constexpr int64_t kGapPlace = -1;  // stands for those that are left out

// From left to right in a bar.
constexpr ArenaKind kParts[] = {ArenaKind::kParameters, ArenaKind::kCache, ArenaKind::kActivations,
                                ArenaKind::kCommunication, ArenaKind::kWorkspace};

// All of them, or the first ones and the last.
std::vector<int64_t> shown(int64_t count, int64_t most) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) {
    if (count <= most || i < most - 2 || i + 1 == count) {
      places.push_back(i);
    } else if (places.back() != kGapPlace) {
      places.push_back(kGapPlace);
    }
  }
  return places;
}

std::string numbers_text(const char* what, int64_t first, int64_t count) {
  if (count == 1) return fmt::format("{} {}", what, first);
  return fmt::format("{}s {}-{}", what, first, first + count - 1);
}

class ServePicture {
 public:
  explicit ServePicture(const ServeReport& report)
      : report_(report),
        e_(report.estimate),
        stages_(shown(std::ssize(e_.stages), 6)),
        ranks_(shown(e_.options.tp, 4)),
        most_(std::max(e_.options.rank_memory_bytes, e_.heaviest().bytes.total())) {
    width_ = std::max(720.0, 2 * kMargin + kLabel + left_of(ranks_.size()) - kGap);
  }

  std::string str() {
    draw_head();
    for (const int64_t stage : stages_) draw_stage(stage);
    draw_legend();
    draw_notes();
    return page_.str(width_, y_ + kMargin, title(), description());
  }

 private:
  [[nodiscard]] std::string title() const {
    return fmt::format("serving {} on {}, {}", e_.spec.model.preset, mesh_text(e_.mesh),
                       name_of(e_.spec.train.dtype));
  }

  // For those who cannot see it.
  [[nodiscard]] std::string description() const {
    std::string text = cache_text() + ". ";
    for (size_t s = 0; s < e_.stages.size(); ++s) {
      const StageEstimate& stage = e_.stages[s];
      text += fmt::format("Stage {}, {}: {} on each of {}, {} of it cache. ", s, layers_text(stage),
                          human_bytes(stage.bytes.total()), count_of(stage.ranks, "rank"),
                          human_bytes(stage.bytes.at(ArenaKind::kCache)));
    }
    return text;
  }

  [[nodiscard]] std::string cache_text() const {
    return fmt::format("{} of {} tokens: {} tokens, of which each takes {} on all ranks",
                       count_of(e_.shape.num_pages, "page"), e_.shape.page_size,
                       with_thousands(e_.cache_tokens()), human_bytes(e_.bytes_per_token()));
  }

  static std::string layers_text(const StageEstimate& stage) {
    return numbers_text("layer", stage.first_layer, stage.layers);
  }

  [[nodiscard]] std::string heads_text(int64_t tp) const {
    const int64_t heads = e_.spec.model.kv_heads;
    if (!e_.splits_kv_heads) return numbers_text("key head", 0, heads);
    const int64_t each = heads / e_.options.tp;
    return numbers_text("key head", tp * each, each);
  }

  // How far the place in a row is from the first column.
  [[nodiscard]] double left_of(size_t place) const {
    double x = 0;
    for (size_t i = 0; i < place; ++i) x += ranks_[i] == kGapPlace ? kGapColumn : kCell + kGap;
    return x;
  }

  void draw_head() {
    y_ = kMargin + 14;
    page_.text(kMargin, y_, 15, kTitleInk, Anchor::kStart, title());
    y_ += 20;
    page_.text(kMargin, y_, 12, kInk, Anchor::kStart, cache_text());
    y_ += 30;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i] == kGapPlace) continue;
      page_.text(column(i), y_, 12, palette::kTp.light, Anchor::kStart,
                 e_.options.tp == 1 ? heads_text(0)
                                    : fmt::format("tp {}: {}", ranks_[i], heads_text(ranks_[i])));
    }
    y_ += 10;
  }

  [[nodiscard]] double column(size_t place) const { return kMargin + kLabel + left_of(place); }

  void draw_stage(int64_t number) {
    if (number == kGapPlace) {
      page_.text(kMargin, y_ + 16, 12, kFaintInk, Anchor::kStart,
                 fmt::format("{} more stages", std::ssize(e_.stages) - std::ssize(stages_) + 1));
      y_ += 34;
      return;
    }
    const StageEstimate& stage = e_.stages[static_cast<size_t>(number)];
    page_.text(kMargin, y_ + 15, 12, palette::kPp.light, Anchor::kStart,
               e_.stages.size() == 1 ? "all layers" : fmt::format("stage {}", number));
    std::string layers = layers_text(stage);
    page_.text(kMargin, y_ + 31, 11, kInk, Anchor::kStart, layers);
    const std::string ends = stage.has_embedding && stage.has_head ? "embedding, head"
                             : stage.has_embedding                 ? "embedding"
                             : stage.has_head                      ? "head"
                                                                   : "";
    if (!ends.empty()) page_.text(kMargin, y_ + 46, 11, kFaintInk, Anchor::kStart, ends);
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i] == kGapPlace) {
        page_.text(column(i), y_ + 15, 12, kFaintInk, Anchor::kStart, "…");
      } else {
        draw_rank(stage, stage.first_rank + ranks_[i], column(i));
      }
    }
    y_ += kRow;
  }

  void draw_rank(const StageEstimate& stage, int64_t rank, double x) {
    const double scale = kCell / static_cast<double>(std::max<int64_t>(1, most_));
    page_.area(x, y_, kCell, kBar, kBlank);
    double at = x;
    for (const ArenaKind part : kParts) {
      const int64_t bytes = stage.bytes.at(part);
      if (bytes == 0) continue;
      const double wide = std::max(kLeastPart, static_cast<double>(bytes) * scale);
      fill_category(page_, part, at, y_, std::min(wide, x + kCell - at), kBar);
      at += wide;
    }
    const int64_t limit = e_.options.rank_memory_bytes;
    if (limit > 0) {
      const double end = x + static_cast<double>(limit) * scale;
      page_.dashes(end, y_ - 3, end, y_ + kBar + 3, kBadInk);
    }
    page_.text(x, y_ + kBar + 14, 11, kInk, Anchor::kStart,
               fmt::format("rank {}: {}", rank, human_bytes(stage.bytes.total())));
    page_.text(x, y_ + kBar + 28, 11, kFaintInk, Anchor::kStart,
               fmt::format("pages {}", human_bytes(stage.bytes.at(ArenaKind::kCache))));
  }

  void draw_legend() {
    double x = kMargin;
    y_ += 4;
    for (const ArenaKind part : kParts) {
      const bool there = std::any_of(e_.stages.begin(), e_.stages.end(),
                                     [&](const auto& stage) { return stage.bytes.at(part) > 0; });
      if (!there) continue;
      fill_category(page_, part, x, y_, 12, 12);
      page_.text(x + 17, y_ + 10, 11, kInk, Anchor::kStart, name_of(part));
      x += 17 + text_pixels(name_of(part), 11) + 16;
    }
    const int64_t limit = e_.options.rank_memory_bytes;
    if (limit > 0) {
      page_.dashes(x + 6, y_ - 1, x + 6, y_ + 13, kBadInk);
      page_.text(x + 17, y_ + 10, 11, kInk, Anchor::kStart,
                 fmt::format("what a rank has: {}", human_bytes(limit)));
    }
    y_ += 32;
  }

  void draw_notes() {
    const StageEstimate& stage = e_.stages.front();
    const int64_t heads = e_.spec.model.kv_heads / (e_.splits_kv_heads ? e_.options.tp : 1);
    const auto note = [&](const std::string& text) {
      for (const std::string& line : lines_of(text, 11, width_ - 2 * kMargin)) {
        page_.text(kMargin, y_, 11, kInk, Anchor::kStart, line);
        y_ += 16;
      }
    };
    note(fmt::format(
        "a page on rank 0: keys and values of {}, {}, {} columns, {} tokens, {} bytes "
        "each: {}",
        count_of(stage.layers, "layer"), count_of(heads, "key head"), e_.spec.model.head_dim,
        e_.shape.page_size, size_bytes(e_.spec.train.dtype), human_bytes(stage.page_bytes)));
    if (!e_.splits_kv_heads) {
      note(
          fmt::format("tp={} does not divide {} key heads: every rank of a stage holds all of them",
                      e_.options.tp, e_.spec.model.kv_heads));
    }
    if (!e_.fits) note(serve_misfit_sentence(report_));
    y_ -= 10;
  }

  const ServeReport& report_;
  const ServeEstimate& e_;
  std::vector<int64_t> stages_, ranks_;
  int64_t most_ = 1;
  double width_ = 0, y_ = 0;
  SvgPage page_;
};

}  // namespace

std::string serve_plan_svg(const ServeReport& report) { return ServePicture(report).str(); }

}  // namespace tessera
