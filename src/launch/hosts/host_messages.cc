#include "launch/hosts/host_messages.h"

#include <bit>
#include <limits>

#include "base/error.h"
#include "launch/rendezvous/frame_body.h"

namespace tessera {
namespace {

constexpr size_t kMaxMessage = 16 * 1024;  // of a text that somebody reads

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

}  // namespace tessera
