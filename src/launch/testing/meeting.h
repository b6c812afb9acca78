// Ranks as threads that find each other, and what a program that is none sends them.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "launch/rendezvous/rendezvous.h"
#include "launch/rendezvous/rendezvous_frame.h"
#include "launch/rendezvous/rendezvous_guest.h"
#include "launch/rendezvous/socket.h"
#include "launch/rendezvous/token.h"
#include "launch/testing/test_process.h"

namespace tessera::testing {

inline constexpr std::chrono::milliseconds kLong{20'000};
inline constexpr std::chrono::milliseconds kShort{300};

inline int free_port() { return listen_on("127.0.0.1", 0).port; }

// How one rank fared: what it got, or what it threw.
struct Outcome {
  std::vector<std::string> payloads;
  std::string error;
  bool config_error = false;
};

// Notes of rank 0, from its thread.
class Notes {
 public:
  void add(const std::string& note) {
    const std::scoped_lock lock(mutex_);
    text_ += note + "\n";
  }
  [[nodiscard]] std::string text() {
    const std::scoped_lock lock(mutex_);
    return text_;
  }
  void await(const std::string& part) {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    while (!contains(text(), part)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << part << " is not in: " << text();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

// Ranks in threads, each with its own Rendezvous.
class Meeting {
 public:
  using Maker = std::function<std::unique_ptr<Rendezvous>(RendezvousOptions)>;
  explicit Meeting(Maker maker) : maker_(std::move(maker)) {}
  ~Meeting() {
    for (auto& [outcome, thread] : ranks_) thread.join();
  }

  // The payload is "from RANK".
  Outcome& start(int rank, int size, RendezvousOptions options = {.timeout = kLong}) {
    options.on_note = [this](const std::string& note) { notes.add(note); };
    auto outcome = std::make_unique<Outcome>();
    Outcome& result = *outcome;
    ranks_.emplace_back(std::move(outcome), std::thread([this, &result, rank, size, options] {
                          const auto rendezvous = maker_(options);
                          try {
                            result.payloads =
                                rendezvous->exchange(rank, size, fmt::format("from {}", rank));
                          } catch (const ConfigError& error) {
                            result.error = error.what();
                            result.config_error = true;
                          } catch (const Error& error) {
                            result.error = error.what();
                          }
                        }));
    return result;
  }
  void join() {
    for (auto& [outcome, thread] : ranks_) thread.join();
    ranks_.swap(done_);
    ranks_.clear();
  }
  Notes notes;

 private:
  Maker maker_;
  std::vector<std::pair<std::unique_ptr<Outcome>, std::thread>> ranks_;
  std::vector<std::pair<std::unique_ptr<Outcome>, std::thread>> done_;
};

inline constexpr const char* kToken = "of-these-tests";

inline Meeting::Maker at_port(int port) {
  return [port](RendezvousOptions options) {
    if (options.token.empty()) options.token = kToken;
    return rendezvous_at({.host = "127.0.0.1", .port = port}, std::move(options));
  };
}

inline Meeting::Maker through(const std::string& path) {
  return [path](RendezvousOptions options) {
    return rendezvous_through_file(path, std::move(options));
  };
}

inline std::vector<std::string> all_payloads(int size) {
  std::vector<std::string> payloads;
  for (int rank = 0; rank < size; ++rank) payloads.push_back(fmt::format("from {}", rank));
  return payloads;
}

// As soon as rank 0 listens.
inline Acceptance introduce_soon(int port, const Hello& hello, const std::string& token = kToken) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (true) {
    try {
      return introduce("127.0.0.1", port, hello, token, deadline);
    } catch (const RefusedError&) {
      throw;
    } catch (const Error&) {
      if (std::chrono::steady_clock::now() >= deadline) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

inline Frame next_frame(const UniqueFd& fd) {
  std::string bytes;
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (true) {
    if (std::optional<Frame> frame = take_frame(bytes, 1000)) return *frame;
    if (!wait_ready(fd.get(), POLLIN, deadline) ||
        receive_some(fd.get(), bytes) == Received::kClosed) {
      throw Error("the other side went away");
    }
  }
}

// Accepts whoever comes, as rank 0 of a run with this token would.
inline void act_as_rank_0(const UniqueFd& fd, const std::string& token) {
  const Hello hello = parse_hello(next_frame(fd));
  send_all(fd.get(), to_bytes(FrameKind::kChallenge, "challenge"),
           std::chrono::steady_clock::now() + kLong);
  (void)next_frame(fd);
  send_all(fd.get(), to_bytes(FrameKind::kAccepted, proof_of("host", hello, "challenge", token)),
           std::chrono::steady_clock::now() + kLong);
}

}  // namespace tessera::testing
