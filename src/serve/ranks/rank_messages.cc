#include "serve/ranks/rank_messages.h"

#include <array>
#include <string_view>

#include "base/error.h"
#include "base/text/printable.h"
#include "launch/rendezvous/frame_body.h"

namespace tessera::serve {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// In the order in which they are sent.
std::array<int64_t, 8> numbers_of(const ServeShape& shape) {
  return {shape.vocab,      shape.max_context,   shape.page_size, shape.num_pages,
          shape.max_tokens, shape.max_sequences, shape.max_rows,  shape.stages};
}

}  // namespace

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::vector<std::byte> bytes_of(const RankTask& task) {
  std::string body;
  for (const int64_t number : numbers_of(task.shape)) {
    put_long(body, static_cast<uint64_t>(number));
  }
  put_number(body, task.times ? 1 : 0);
  put_long(body, static_cast<uint64_t>(task.timeout.count()));
  put_text(body, task.text);
  return bytes_of(body);
}

RankTask task_from(std::span<const std::byte> bytes) {
  FrameBody body(text_of(bytes));
  const auto number = [&] { return static_cast<int64_t>(body.long_number()); };
  RankTask task;
  task.shape.vocab = number();
  task.shape.max_context = number();
  task.shape.page_size = number();
  task.shape.num_pages = number();
  task.shape.max_tokens = number();
  task.shape.max_sequences = number();
  task.shape.max_rows = number();
  task.shape.stages = static_cast<int>(number());
  task.times = body.number() != 0;
  task.timeout = std::chrono::milliseconds(number());
  task.text = body.text();
  body.end();
  return task;
}

std::vector<std::byte> bytes_of(const FrameTimes& times) {
  std::string body;
  put_long(body, times.number);
  for (const int64_t ns : {times.begin_ns, times.input_ns, times.output_ns, times.end_ns}) {
    put_long(body, static_cast<uint64_t>(ns));
  }
  return bytes_of(body);
}

FrameTimes times_from(std::span<const std::byte> bytes) {
  FrameBody body(text_of(bytes));
  FrameTimes times;
  times.number = body.long_number();
  for (int64_t* ns : {&times.begin_ns, &times.input_ns, &times.output_ns, &times.end_ns}) {
    *ns = static_cast<int64_t>(body.long_number());
  }
  body.end();
  return times;
}

std::string text_from(std::span<const std::byte> bytes, size_t most) {
  return printable(text_of(bytes).substr(0, most));
}

}  // namespace tessera::serve
