// How fast text becomes tokens. Documents are shared out among threads as they come; each thread
// has an encoder of its own, warm from a first pass that does not count.
// usage: tokens_bench TOKENIZER TEXT THREADS [RUNS]
//   TEXT     documents, with the byte 1E (hexadecimal) between them
//   RUNS     so many, each with its MB/s; without it commands come from standard input, for
//            bench/compare_tokenizers.py: "go" encodes once and prints the seconds, "ids FILE"
//            writes all ids, as 32-bit numbers
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/tokenizer.h"

namespace tessera {
namespace {

constexpr char kSeparator = '\x1e';

class TokensBench {
 public:
  TokensBench(const char* tokenizer, const char* text, int threads)
      : tokenizer_(Tokenizer::load(tokenizer)) {
    std::ifstream file(text, std::ios::binary);
    require_config(file.good(), "cannot read '{}'", text);
    text_.assign(std::istreambuf_iterator<char>(file), {});
    std::string_view rest = text_;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(kSeparator), rest.size());
      documents_.push_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    ids_.resize(documents_.size());
    for (int i = 0; i < threads; ++i) {
      encoders_.push_back(std::make_unique<TokenEncoder>(tokenizer_));
    }
  }

  // Encodes all documents once; the seconds that it took.
  double run() {
    const auto start = std::chrono::steady_clock::now();
    std::atomic<size_t> next = 0;
    const auto work = [&](TokenEncoder& encoder) {
      for (size_t i = next++; i < documents_.size(); i = next++) {
        ids_[i].clear();
        encoder.encode(documents_[i], false, ids_[i]);
      }
    };
    std::vector<std::thread> threads;
    for (size_t i = 1; i < encoders_.size(); ++i)
      threads.emplace_back(work, std::ref(*encoders_[i]));
    work(*encoders_[0]);
    for (std::thread& thread : threads) thread.join();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void write_ids(const std::string& path) const {
    std::ofstream file(path, std::ios::binary);
    for (const std::vector<int32_t>& ids : ids_) {
      file.write(reinterpret_cast<const char*>(ids.data()),
                 static_cast<std::streamsize>(ids.size() * sizeof(int32_t)));
    }
    require(file.flush().good(), "cannot write '{}'", path);
  }

  void print_runs(int runs) {
    size_t tokens = 0;
    for (const std::vector<int32_t>& ids : ids_) tokens += ids.size();
    std::printf("%zu documents, %zu bytes, %zu tokens, %zu threads\n", documents_.size(),
                text_.size(), tokens, encoders_.size());
    const double megabytes = static_cast<double>(text_.size()) / 1e6;
    for (int i = 0; i < runs; ++i) {
      const std::clock_t start = std::clock();
      const double seconds = run();
      // A busy machine does not count in the second.
      const double processor = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      std::printf("%.1f MB/s, %.1f of a processor\n", megabytes / seconds, megabytes / processor);
    }
  }

 private:
  Tokenizer tokenizer_;
  std::string text_;
  std::vector<std::string_view> documents_;
  std::vector<std::vector<int32_t>> ids_;
  std::vector<std::unique_ptr<TokenEncoder>> encoders_;
};

void serve(TokensBench& bench) {
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "go") {
      std::cout << bench.run() << std::endl;
    } else if (line.starts_with("ids ")) {
      bench.write_ids(line.substr(4));
      std::cout << "written" << std::endl;
    } else {
      throw ConfigError("unknown command '" + line + "'");
    }
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    std::fprintf(stderr, "usage: tokens_bench TOKENIZER TEXT THREADS [RUNS]\n");
    return 2;
  }
  try {
    tessera::TokensBench bench(argv[1], argv[2], std::max(1, std::atoi(argv[3])));
    bench.run();
    if (argc == 5) {
      bench.print_runs(std::max(1, std::atoi(argv[4])));
    } else {
      tessera::serve(bench);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokens_bench: %s\n", error.what());
    return 2;
  }
  return 0;
}
