#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/text/quantity.h"
#include "base/text/text.h"
#include "plan/report/misfit_text.h"
#include "plan/report/model_text.h"
#include "serve/plan/serve_report.h"

namespace tessera::serve {
namespace {

// Those of a step of training alone are empty.
constexpr ArenaKind kArenas[] = {ArenaKind::kParameters, ArenaKind::kActivations,
                                 ArenaKind::kCommunication, ArenaKind::kWorkspace,
                                 ArenaKind::kCache};

std::string flops_text(int64_t flops) {
  return text_of({static_cast<double>(flops), Unit::kFlops});
}

std::string experts_text(const ServeEstimate& estimate) {
  const int64_t ep = estimate.spec.parallel.ep;
  return ep > 1 ? fmt::format(", experts over {}", ep) : "";
}

std::string heads_text(const ServeEstimate& estimate) {
  const int64_t heads = estimate.spec.model.kv_heads;
  const int64_t tp = estimate.options.tp;
  if (tp == 1) return fmt::format("all {} key heads on each rank", heads);
  if (estimate.splits_kv_heads) {
    return fmt::format("{} key heads over tp={}: {} on each rank", heads, tp, heads / tp);
  }
  return fmt::format(
      "tp={} does not divide {} key heads: every rank has all of them, so the ranks of a stage "
      "hold "
      "the same cache {} times",
      tp, heads, tp);
}

std::string head_text(const ServeReport& report) {
  const ServeEstimate& e = report.estimate;
  std::string text = fmt::format("model     {}\n", model_text(e.spec.model, e.num_parameters));
  if (report.cluster) {
    text += fmt::format("cluster   {}: {} of its {} x {}\n", report.cluster->name,
                        with_thousands(e.world()), with_thousands(report.cluster->devices),
                        report.cluster->device.name);
  }
  text += fmt::format(
      "mesh      {}{}, {}, {} each\n"
      "frames    up to {} tokens of {}; a sequence of up to {}\n"
      "cache     {} of {} tokens = {} tokens; a token takes {} on all ranks, {} on rank 0\n"
      "          {}\n",
      mesh_text(e.mesh), experts_text(e), name_of(e.spec.train.dtype),
      count_of(e.spec.train.threads, "thread"), with_thousands(e.shape.max_tokens),
      count_of(e.shape.max_sequences, "sequence"), count_of(e.shape.max_context, "token"),
      count_of(e.shape.num_pages, "page"), e.shape.page_size, with_thousands(e.cache_tokens()),
      human_bytes(e.bytes_per_token()),
      human_bytes(e.stages.front().page_bytes / e.shape.page_size), heads_text(e));
  return text;
}

// "embed 0-7"
std::string layers_text(const StageEstimate& stage) {
  std::vector<std::string> parts;
  if (stage.has_embedding) parts.emplace_back("embed");
  if (stage.layers == 1) parts.push_back(std::to_string(stage.first_layer));
  if (stage.layers > 1) {
    parts.push_back(fmt::format("{}-{}", stage.first_layer, stage.first_layer + stage.layers - 1));
  }
  if (stage.has_head) parts.emplace_back("head");
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string ranks_text(const StageEstimate& stage) {
  return stage.ranks == 1
             ? std::to_string(stage.first_rank)
             : fmt::format("{}-{}", stage.first_rank, stage.first_rank + stage.ranks - 1);
}

std::string memory_table(const ServeEstimate& e) {
  std::vector<TextTable::Column> columns = {
      {"stage", Align::kRight}, {"ranks", Align::kRight}, {"layers", Align::kLeft}};
  for (const ArenaKind arena : kArenas) {
    columns.push_back({std::string(name_of(arena)), Align::kRight});
  }
  columns.push_back({"total", Align::kRight});
  const bool limited = e.options.rank_memory_bytes > 0;
  if (limited) columns.push_back({"of limit", Align::kRight});
  TextTable table(std::move(columns));
  for (size_t s = 0; s < e.stages.size(); ++s) {
    const StageEstimate& stage = e.stages[s];
    std::vector<std::string> cells = {std::to_string(s), ranks_text(stage), layers_text(stage)};
    for (const ArenaKind arena : kArenas) cells.push_back(human_bytes(stage.bytes.at(arena)));
    cells.push_back(human_bytes(stage.bytes.total()));
    if (limited) {
      cells.push_back(percent_text(static_cast<double>(stage.bytes.total()),
                                   static_cast<double>(e.options.rank_memory_bytes)));
    }
    table.add_row(std::move(cells));
  }
  return table.str();
}

std::string heaviest_table(const ServeEstimate& e) {
  const StageEstimate& stage = e.heaviest();
  TextTable table({{fmt::format("memory of rank {}", stage.first_rank), Align::kLeft},
                   {"bytes", Align::kRight},
                   {"", Align::kRight}});
  for (const ArenaKind arena : kArenas) {
    const int64_t bytes = stage.bytes.at(arena);
    table.add_row({std::string(name_of(arena)), with_thousands(bytes), human_bytes(bytes)});
  }
  table.add_rule();
  table.add_row({"total", with_thousands(stage.bytes.total()), human_bytes(stage.bytes.total())});
  return table.str();
}

// How the number of pages comes about, with every term.
std::string formula_text(const ServeReport& report) {
  const ServeEstimate& e = report.estimate;
  const ModelSpec& m = e.spec.model;
  const PageTerms terms = page_terms(e);
  const std::string who = terms.stage == nullptr ? count_of(e.world(), "rank")
                                                 : fmt::format("rank {}", terms.stage->first_rank);
  const int64_t tp = e.splits_kv_heads ? e.options.tp : 1;
  const int64_t room = terms.limit_bytes - terms.beside_bytes - terms.line_bytes;
  const int64_t pages = std::max<int64_t>(0, room / std::max<int64_t>(1, terms.page_bytes));
  std::string text = fmt::format(
      "pages = (memory {} - beside the cache {} - {} for whole lines) / {} a page = {}{}\n"
      "        of {}; memory: that of {}\n",
      with_thousands(terms.limit_bytes), with_thousands(terms.beside_bytes),
      with_thousands(terms.line_bytes), with_thousands(terms.page_bytes), with_thousands(pages),
      e.fits ? ""
             : fmt::format(", fewer than the {} of the longest sequence",
                           with_thousands(e.shape.num_pages)),
      who, report.memory_of);
  const int64_t layers = terms.stage == nullptr ? m.layers : terms.stage->layers;
  text += fmt::format("a page = 2 (keys, values) x {} x {} x {} columns x {} tokens x {} bytes{}\n",
                      count_of(layers, "layer"), count_of(m.kv_heads / tp, "key head"), m.head_dim,
                      e.shape.page_size, size_bytes(e.spec.train.dtype),
                      terms.stage != nullptr || e.options.tp == 1
                          ? ""
                          : fmt::format(" x {} ranks of tp", e.options.tp));
  return text;
}

std::string context_text(int64_t context, int64_t most) {
  return context == most ? fmt::format("{} (longest)", with_thousands(context))
                         : with_thousands(context);
}

std::string sequences_table(const ServeReport& report) {
  const ServeEstimate& e = report.estimate;
  TextTable table({{"sequences of", Align::kRight},
                   {"pages each", Align::kRight},
                   {"at once, most", Align::kRight}});
  for (const int64_t context : report.contexts) {
    const int64_t pages = (context + e.shape.page_size - 1) / e.shape.page_size;
    table.add_row({context_text(context, e.shape.max_context), with_thousands(pages),
                   with_thousands(e.most_sequences(context))});
  }
  return table.str() +
         fmt::format("one frame writes the next token of {} at most (--max-sequences)\n",
                     count_of(e.shape.max_sequences, "sequence"));
}

// What one group of ranks sends, "4.2 MiB": of the rank that sends the most.
struct Sent {
  std::string group, op;
  friend auto operator<=>(const Sent&, const Sent&) = default;
};

std::map<Sent, int64_t> most_sent(const ServeEstimate& e, size_t bucket) {
  std::map<Sent, int64_t> most;
  for (const StageEstimate& stage : e.stages) {
    for (const Traffic& t : e.traffic(bucket, stage.first_rank)) {
      if (t.bytes_sent == 0) continue;
      int64_t& bytes = most[{t.group, t.op}];
      bytes = std::max(bytes, t.bytes_sent);
    }
  }
  return most;
}

// The stage with the largest, and how much.
template <typename Number>
int64_t largest(const ServeEstimate& e, const Number& number) {
  int64_t most = 0;
  for (const StageEstimate& stage : e.stages) most = std::max<int64_t>(most, number(stage));
  return most;
}

std::string frames_table(const ServeEstimate& e) {
  const std::map<Sent, int64_t> sent = most_sent(e, e.buckets.size() - 1);
  std::vector<TextTable::Column> columns = {{"frame of", Align::kRight},
                                            {"rows", Align::kRight},
                                            {"products", Align::kRight},
                                            {"read and written", Align::kRight},
                                            {"room", Align::kRight}};
  for (const auto& [what, bytes] : sent) {
    columns.push_back({fmt::format("{} {}", what.group, what.op), Align::kRight});
  }
  TextTable table(std::move(columns));
  for (size_t b = 0; b < e.buckets.size(); ++b) {
    const auto frame = [&](const StageEstimate& stage) -> const FrameWork& {
      return stage.frames[b];
    };
    std::vector<std::string> cells = {
        count_of(e.buckets[b].tokens, "token"), with_thousands(e.buckets[b].rows),
        flops_text(largest(e, [&](const auto& stage) { return frame(stage).flops; })),
        human_bytes(largest(e, [&](const auto& stage) { return frame(stage).bytes; })),
        human_bytes(largest(e, [&](const auto& stage) { return frame(stage).room_bytes; }))};
    const std::map<Sent, int64_t> of_bucket = most_sent(e, b);
    for (const auto& [what, bytes] : sent) {
      const auto found = of_bucket.find(what);
      cells.push_back(found == of_bucket.end() ? "-" : human_bytes(found->second));
    }
    table.add_row(std::move(cells));
  }
  return "a frame on one rank, by its size; of the stage where each is largest; columns of groups: "
         "bytes sent\n" +
         table.str() + "without what attention reads of the cache, which what it holds decides\n";
}

std::string floor_text(const ServeReport& report) {
  if (!report.cluster) {
    return "least time of a step: give --cluster, which knows the bandwidth of its devices\n";
  }
  TextTable table({{"step of", Align::kRight},
                   {"each with", Align::kRight},
                   {"read by all", Align::kRight},
                   {"step, at least", Align::kRight},
                   {"tokens/s, at most", Align::kRight}});
  for (const DecodeFloor& floor : decode_floors(report)) {
    table.add_row({count_of(floor.sequences, "sequence"), count_of(floor.context, "token"),
                   human_bytes(floor.bytes), short_seconds(floor.step_s),
                   fmt::format("{:.0f}", static_cast<double>(floor.sequences) / floor.step_s)});
  }
  return fmt::format(
             "floor of a step that writes a token of each: bytes / {} of one {} (data sheet); no "
             "prediction\n",
             text_of({report.cluster->device.memory_bandwidth.value, Unit::kBytesPerSecond}),
             report.cluster->device.name) +
         table.str();
}

std::string guesses_text(const ServeReport& report) {
  if (report.guesses.empty()) return "";
  std::string text = "\nnobody said, so taken:\n";
  for (const Guess& guess : report.guesses) {
    text += fmt::format("  {}: {}\n", guess.what, guess.taken);
  }
  return text;
}

std::string fit_line(const ServeReport& report) {
  const ServeEstimate& e = report.estimate;
  if (!e.fits) return serve_misfit_text(report) + "\n";
  return fmt::format("fits: {} on {}\n", human_bytes(e.total_bytes()), count_of(e.world(), "rank"));
}

}  // namespace

std::string serve_plan_text(const ServeReport& report) {
  const ServeEstimate& e = report.estimate;
  return fmt::format("{}\nmemory of a rank\n{}\n{}\n{}{}\n{}\n{}\n{}{}", head_text(report),
                     memory_table(e), heaviest_table(e), formula_text(report), fit_line(report),
                     sequences_table(report), frames_table(e), floor_text(report),
                     guesses_text(report));
}

}  // namespace tessera::serve
