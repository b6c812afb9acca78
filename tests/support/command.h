// The tessera program run as a user would: in a folder, with both streams and the exit code kept.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/test_folder.h"

namespace tessera::testing {

struct CommandResult {
  int code = -1;  // 128 + n after signal n, as shells count
  std::string out, err;

  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(out); }
};

struct CommandOptions {
  std::string program = TESSERA_BINARY;
  std::vector<std::string> environment;  // "NAME=value", added to that of the test
  std::string output;                    // tells the streams of commands in one folder apart
};

// A running tessera; killed at the end unless finish() was called.
class Command {
 public:
  Command(const TestFolder& folder, std::vector<std::string> args, CommandOptions options = {})
      : folder_(folder), output_(options.output) {
    args.insert(args.begin(), options.program);
    std::vector<char*> argv = pointers(args);
    std::vector<std::string> variables = std::move(options.environment);
    for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
    std::vector<char*> envp = pointers(variables);  // the first of a name counts
    const std::string out = stream_path("stdout"), err = stream_path("stderr");
    pid_ = fork();
    if (pid_ != 0) return;
    // In the child only calls that are safe after fork.
    const bool ready = chdir(folder.path().c_str()) == 0 && redirect(out.c_str(), STDOUT_FILENO) &&
                       redirect(err.c_str(), STDERR_FILENO);
    if (ready) execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  ~Command() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }

  // Fails the test when it takes longer than three minutes.
  CommandResult finish() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(3);
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "tessera hangs";
        return {};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    pid_ = 0;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            read_file(stream_path("stdout")), read_file(stream_path("stderr"))};
  }

 private:
  [[nodiscard]] std::string stream_path(const std::string& stream) const {
    return folder_.path("." + stream + output_);
  }
  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  }
  static bool redirect(const char* path, int to) {
    const int from = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    return from >= 0 && dup2(from, to) == to;
  }

  const TestFolder& folder_;
  std::string output_;
  pid_t pid_ = 0;
};

inline std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// `line` is split at spaces; `more` is not.
inline CommandResult tessera(const TestFolder& folder, const std::string& line,
                             const std::vector<std::string>& more = {}) {
  std::vector<std::string> args = words_of(line);
  args.insert(args.end(), more.begin(), more.end());
  return Command(folder, std::move(args)).finish();
}

// A test that runs the program in a folder of its own.
class CommandTest : public ::testing::Test {
 protected:
  CommandResult run(const std::string& line, const std::vector<std::string>& more = {}) {
    return tessera(folder_, line, more);
  }
  CommandResult succeed(const std::string& line, const std::vector<std::string>& more = {}) {
    CommandResult result = run(line, more);
    EXPECT_EQ(result.code, 0) << "tessera " << line << "\n" << result.err;
    return result;
  }
  TestFolder folder_;
};

// A run file for a model that trains in milliseconds, on dp = 2, tp = 2.
inline std::string tiny_run_file() {
  return R"([model]
layers = 2
hidden = 16
ffn = 24
heads = 4
kv_heads = 2
vocab = 256
init_std = 0.3

[parallel]
dp = 2
tp = 2
zero = 1
sequence_parallel = true

[train]
seq_len = 8
micro_batch = 1
global_batch = 4
steps = 2
dtype = "f32"
threads = 1

[optimizer]
lr = 1e-2

[data]
synth = { seed = 7, bytes = 20000 }

[logging]
run_dir = "out"
)";
}

// The lines of a metrics.jsonl.
inline std::vector<nlohmann::json> read_metrics(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::vector<nlohmann::json> metrics;
  for (std::string line; std::getline(lines, line);) metrics.push_back(nlohmann::json::parse(line));
  return metrics;
}

}  // namespace tessera::testing
