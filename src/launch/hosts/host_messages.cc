#include "launch/hosts/host_messages.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.h"
#include "launch/rendezvous/frame_body.h"

namespace tessera {
namespace {

constexpr size_t kMaxMessage = 16 * 1024;  // of a text that somebody reads
constexpr size_t kMaxLine = 1024;
constexpr size_t kMaxStacks = 128 * 1024;
constexpr size_t kMaxRanksHere = 64;

int count_from(FrameBody& body) {
  const uint32_t value = body.number();
  require(value <= static_cast<uint32_t>(std::numeric_limits<int>::max()), "a count of {}", value);
  return static_cast<int>(value);
}

template <typename Enum>
Enum choice_from(FrameBody& body, Enum last) {
  const uint32_t value = body.number();
  require(value <= static_cast<uint32_t>(last), "a choice of {}", value);
  return static_cast<Enum>(value);
}

void put_texts(std::string& bytes, const std::vector<std::string>& texts) {
  put_number(bytes, static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) put_text(bytes, text);
}

// As many as there are bytes for: a count alone allocates nothing.
std::vector<std::string> texts_from(FrameBody& body) {
  std::vector<std::string> texts;
  const uint32_t count = body.number();
  for (uint32_t i = 0; i < count; ++i) texts.push_back(body.text());
  return texts;
}

void put_int(std::string& bytes, int64_t value) { put_long(bytes, static_cast<uint64_t>(value)); }

int64_t int_from(FrameBody& body) { return static_cast<int64_t>(body.long_number()); }

void put_loss(std::string& bytes, const RankLoss& loss) {
  put_number(bytes, static_cast<uint32_t>(loss.verdict));
  put_int(bytes, loss.generation);
  put_int(bytes, loss.rank);
  put_int(bytes, loss.pid);
  put_int(bytes, loss.exit.code);
  put_int(bytes, loss.exit.signal);
  put_number(bytes, static_cast<uint32_t>(loss.section));
  put_int(bytes, loss.step);
  put_text(bytes, loss.reason.substr(0, kMaxMessage));
  put_long(bytes, std::bit_cast<uint64_t>(loss.unix_time));
  put_number(bytes, loss.curable ? 1 : 0);
}

RankLoss loss_from(FrameBody& body) {
  RankLoss loss;
  loss.verdict = choice_from(body, Verdict::kPartitioned);
  loss.generation = static_cast<int>(int_from(body));
  loss.rank = static_cast<int>(int_from(body));
  loss.pid = static_cast<pid_t>(int_from(body));
  loss.exit.code = static_cast<int>(int_from(body));
  loss.exit.signal = static_cast<int>(int_from(body));
  loss.section = choice_from(body, RunSection::kEnd);
  loss.step = int_from(body);
  loss.reason = body.text();
  loss.unix_time = std::bit_cast<double>(body.long_number());
  loss.curable = body.number() == 1;
  return loss;
}

void put_run(std::string& bytes, const RunState& run) {
  put_int(bytes, run.steps_done);
  put_int(bytes, run.checkpoint_step);
  put_number(bytes, run.opened ? 1 : 0);
  put_number(bytes, static_cast<uint32_t>(run.section));
  put_int(bytes, run.step);
}

RunState run_from(FrameBody& body) {
  RunState run;
  run.steps_done = int_from(body);
  run.checkpoint_step = int_from(body);
  run.opened = body.number() == 1;
  run.section = choice_from(body, RunSection::kEnd);
  run.step = int_from(body);
  return run;
}

void put_sight(std::string& bytes, const RankSight& rank) {
  put_number(bytes, (rank.running ? 1 : 0) + (rank.stopped ? 2 : 0));
  put_number(bytes, static_cast<uint32_t>(rank.progress.section));
  put_int(bytes, rank.progress.step);
  put_number(bytes, rank.progress.left);
  put_long(bytes, rank.progress.beats);
  put_long(bytes, rank.progress.calls);
  put_int(bytes, rank.progress.waits_for);
}

RankSight sight_from(FrameBody& body) {
  RankSight rank;
  const uint32_t state = body.number();
  rank.running = (state & 1U) != 0;
  rank.stopped = (state & 2U) != 0;
  rank.progress.section = choice_from(body, RunSection::kEnd);
  rank.progress.step = int_from(body);
  rank.progress.left = body.number();
  rank.progress.beats = body.long_number();
  rank.progress.calls = body.long_number();
  rank.progress.waits_for = static_cast<int>(int_from(body));
  return rank;
}

std::vector<std::string> cut(std::vector<std::string> texts) {
  for (std::string& text : texts) text.resize(std::min(text.size(), kMaxLine));
  return texts;
}

std::string cut_stacks(const std::string& text) {
  if (text.size() <= kMaxStacks) return text;
  return text.substr(0, kMaxStacks) + "\n(more than one message holds: the rest is left out)\n";
}

}  // namespace

std::string to_body(const HostHello& hello) {
  std::string bytes;
  put_number(bytes, static_cast<uint32_t>(hello.host));
  put_text(bytes, hello.incarnation);
  return bytes;
}

HostHello parse_hello(std::string_view bytes) {
  FrameBody body(bytes);
  HostHello hello;
  hello.host = count_from(body);
  hello.incarnation = body.text();
  body.end();
  return hello;
}

std::string to_body(const GenerationStart& start) {
  std::string bytes;
  put_number(bytes, static_cast<uint32_t>(start.first_rank));
  put_number(bytes, static_cast<uint32_t>(start.ranks));
  put_number(bytes, static_cast<uint32_t>(start.world));
  put_texts(bytes, start.addresses);
  put_texts(bytes, start.environment);
  return bytes;
}

GenerationStart parse_start(std::string_view bytes) {
  FrameBody body(bytes);
  GenerationStart start;
  start.first_rank = count_from(body);
  start.ranks = count_from(body);
  start.world = count_from(body);
  start.addresses = texts_from(body);
  start.environment = texts_from(body);
  body.end();
  const auto world = static_cast<size_t>(start.world);
  require(start.addresses.size() == world && start.ranks >= 1 && start.ranks <= start.world &&
              start.first_rank <= start.world - start.ranks,
          "ranks {} to {} of {}, with {} addresses", start.first_rank,
          int64_t{start.first_rank} + start.ranks - 1, start.world, start.addresses.size());
  return start;
}

std::string to_body(const GenerationReport& report) {
  std::string bytes;
  put_number(bytes, static_cast<uint32_t>(report.exit_code));
  put_text(bytes, report.message.substr(0, kMaxMessage));
  put_number(bytes, report.opened ? 1 : 0);
  put_number(bytes, static_cast<uint32_t>(report.why));
  put_number(bytes, report.loss ? 1 : 0);
  if (report.loss) put_loss(bytes, *report.loss);
  return bytes;
}

GenerationReport parse_report(std::string_view bytes) {
  FrameBody body(bytes);
  GenerationReport report;
  report.exit_code = count_from(body);
  require(report.exit_code <= 255, "an exit code of {}", report.exit_code);
  report.message = body.text();
  report.opened = body.number() == 1;
  report.why = choice_from(body, GenerationReport::Why::kFenced);
  if (body.number() == 1) report.loss = loss_from(body);
  body.end();
  return report;
}

std::string to_body(const std::vector<std::string>& texts) {
  std::string bytes;
  put_texts(bytes, texts);
  return bytes;
}

std::vector<std::string> parse_texts(std::string_view bytes) {
  FrameBody body(bytes);
  std::vector<std::string> texts = texts_from(body);
  body.end();
  return texts;
}

std::string to_body(const HostSight& sight) {
  std::string bytes;
  put_run(bytes, sight.run);
  put_number(bytes, static_cast<uint32_t>(sight.ranks.size()));
  for (size_t i = 0; i < sight.ranks.size(); ++i) {
    put_int(bytes, sight.pids.at(i));
    put_sight(bytes, sight.ranks[i]);
  }
  return bytes;
}

HostSight parse_sight(std::string_view bytes) {
  FrameBody body(bytes);
  HostSight sight;
  sight.run = run_from(body);
  const uint32_t count = body.number();
  require(count <= kMaxRanksHere, "a sight of {} ranks", count);
  for (uint32_t i = 0; i < count; ++i) {
    sight.pids.push_back(static_cast<pid_t>(int_from(body)));
    sight.ranks.push_back(sight_from(body));
  }
  body.end();
  return sight;
}

std::string to_body(const HostWhereabouts& whereabouts) {
  std::string bytes;
  put_texts(bytes, cut(whereabouts.ranks));
  put_texts(bytes, cut(whereabouts.at));
  put_text(bytes, cut_stacks(whereabouts.stacks));
  return bytes;
}

HostWhereabouts parse_whereabouts(std::string_view bytes) {
  FrameBody body(bytes);
  HostWhereabouts whereabouts;
  whereabouts.ranks = texts_from(body);
  whereabouts.at = texts_from(body);
  whereabouts.stacks = body.text();
  body.end();
  return whereabouts;
}

std::string to_body(const RankCommand& order) {
  std::string bytes;
  put_number(bytes, static_cast<uint32_t>(order.kind));
  put_number(bytes, static_cast<uint32_t>(order.rank));
  put_number(bytes, static_cast<uint32_t>(order.verdict));
  put_long(bytes, std::bit_cast<uint64_t>(order.seconds));
  return bytes;
}

RankCommand parse_order(std::string_view bytes) {
  FrameBody body(bytes);
  RankCommand order;
  order.kind = choice_from(body, RankCommand::Kind::kMakeRoom);
  order.rank = count_from(body);
  order.verdict = choice_from(body, Verdict::kPartitioned);
  order.seconds = std::bit_cast<double>(body.long_number());
  body.end();
  return order;
}

}  // namespace tessera
