// What `tessera data prepare` spends its time on: every stage alone, on one thread, in seconds of
// the processor; and how many times as fast as one encoding thread its reader and its writer are,
// which is how many threads they can serve.
// usage: prepare_bench TOKENIZER OUT INPUT...
//   OUT    a folder that is made, and written to
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/prepare/encode_unit.h"
#include "data/prepare/work_unit.h"
#include "data/set/set_writer.h"
#include "data/tokenizer/tokenizer.h"

namespace tessera {
namespace {

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// What calls take, summed: of this thread's processor, and on the wall.
struct Stage {
  const char* name;
  double cpu = 0;
  double wall = 0;

  template <typename Call>
  auto operator()(const Call& call) {
    const double cpu_before = now(CLOCK_THREAD_CPUTIME_ID);
    const double wall_before = now(CLOCK_MONOTONIC);
    struct Add {
      Stage& stage;
      double cpu, wall;
      ~Add() {
        stage.cpu += now(CLOCK_THREAD_CPUTIME_ID) - cpu;
        stage.wall += now(CLOCK_MONOTONIC) - wall;
      }
    } const add{*this, cpu_before, wall_before};
    return call();
  }
};

int64_t input_bytes_of(const std::vector<PrepareInput>& inputs) {
  int64_t bytes = 0;
  for (const PrepareInput& input : inputs) bytes += input.bytes;
  return bytes;
}

int run(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("usage: prepare_bench TOKENIZER OUT INPUT...\n", stderr);
    return 2;
  }
  std::vector<PrepareInput> inputs;
  for (int i = 3; i < argc; ++i) {
    inputs.push_back({argv[i], static_cast<int64_t>(std::filesystem::file_size(argv[i])), 0});
  }
  Stage load{"load the tokenizer"}, read{"read and cut"}, encode{"encode"}, write{"write"},
      finish{"to the disk"};
  const Tokenizer tokenizer = load([&] { return Tokenizer::load(argv[1]); });
  EncodeOptions options;
  options.separator = "\x1e";
  options.end_token = 0;
  options.type = tokenizer.vocab_size() <= 65536 ? TokenType::kU16 : TokenType::kU32;
  SetDescription facts;
  facts.type = options.type;
  facts.vocab_size = tokenizer.vocab_size();
  facts.tokenizer = tokenizer.fingerprint();
  SetWriter writer({SetFormat::kTessera, argv[2]}, facts);
  UnitReader reader(inputs, options.separator, {}, options.limits);
  TokenEncoder encoder(tokenizer);
  const std::function<void(size_t)> room_for = [](size_t) {};
  // Units go round as they do there, so that memory is as warm or cold as it is there.
  std::vector<WorkUnit> units(5);
  std::vector<EncodedUnit> encoded(units.size());
  int64_t text_bytes = 0;
  for (size_t i = 0; read([&] { return reader.next(units[i]); }); i = (i + 1) % units.size()) {
    text_bytes += static_cast<int64_t>(units[i].text.size());
    encode([&] { encode_unit(units[i], options, encoder, room_for, encoded[i]); });
    const EncodedTokens& set = encoded[i].sets[0];
    write([&] { writer.append({set.tokens.bytes(), set.ends, set.crc32, set.largest_id}); });
  }
  finish([&] { writer.finish(); });
  std::printf("%.1f MB of input, %.1f MB of text, %lld tokens in %lld documents\n",
              1e-6 * static_cast<double>(input_bytes_of(inputs)),
              1e-6 * static_cast<double>(text_bytes), static_cast<long long>(writer.tokens()),
              static_cast<long long>(writer.documents()));
  std::printf("%-20s %10s %10s %10s %16s\n", "stage", "cpu s", "wall s", "MB/s", "times encoding");
  for (const Stage& stage : {load, read, encode, write, finish}) {
    std::printf("%-20s %10.3f %10.3f %10.1f %16.1f\n", stage.name, stage.cpu, stage.wall,
                1e-6 * static_cast<double>(text_bytes) / stage.cpu, encode.cpu / stage.cpu);
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    return tessera::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "prepare_bench: %s\n", error.what());
    return 1;
  }
}
