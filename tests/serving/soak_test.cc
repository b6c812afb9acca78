// A server whose cache is always full, with clients that come, leave and come again: every answer
// is whole, little is computed twice, and nothing grows.
//
// A commit soaks for a few seconds, ./test --all for a minute, TESSERA_SOAK_SECONDS=3600 for an
// hour.
#include <atomic>
#include <csignal>
#include <random>
#include <thread>

#include "base/testing/share.h"
#include "serving/process_holding.h"
#include "serving/served_command.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests
using Clock = std::chrono::steady_clock;

constexpr int kClients = 32;
constexpr int kPages = 400;  // of 16 tokens; clients ask for more than fits at once

int64_t soak_seconds() {
  const char* text = std::getenv("TESSERA_SOAK_SECONDS");
  if (text != nullptr) return std::atoll(text);
  return tries_all() ? 60 : 4;
}

class ServeSoakTest : public ServedCommandTest {
 protected:
  [[nodiscard]] double metric(const std::string& name) const {
    const std::string text = http::fetch(port_, "/metrics").body;
    const size_t line = text.find("\ntessera_" + name + "{");
    if (line == std::string::npos) return -1;
    return std::atof(text.c_str() + text.find("} ", line) + 2);
  }

  // One request after the other, until `end`; every seventh client leaves before its answer.
  void be_a_client(uint64_t seed, Clock::time_point end) {
    std::mt19937_64 random(seed);
    const auto roll = [&](int least, int most) {
      return least + static_cast<int>(random() % static_cast<uint64_t>(most - least + 1));
    };
    while (Clock::now() < end) {
      std::vector<int> prompt;
      const int begin = roll(0, 3);  // prompts begin alike
      for (int t = 0; t < 32; ++t) prompt.push_back((begin * 7 + t) % 40);
      for (int t = roll(120, 320); t > 0; --t) prompt.push_back(roll(0, 39));
      // Few are longer than nearly all, for which no room was kept.
      const int tokens = roll(0, 19) == 0 ? 150 : roll(8, 32);
      const bool stream = roll(0, 1) == 1;
      const auto request = ask({{"prompt", prompt},
                                {"max_tokens", tokens},
                                {"ignore_eos", true},
                                {"return_token_ids", true},
                                {"stream", stream}});
      if (roll(0, 6) == 0) {
        ++left_;
        continue;
      }
      const http::TestResponse response = request->response();
      if (response.status == 429) continue;
      ASSERT_EQ(response.status, 200) << response.body;
      const size_t got = stream ? ids_of_stream(response.body).ids.size()
                                : json::parse(response.body)["choices"][0]["token_ids"].size();
      ASSERT_EQ(got, static_cast<size_t>(tokens));
      ++answered_;
    }
  }

  // Looks at the server until `end`; the first quarter warms up.
  void watch(Clock::time_point begin, Clock::time_point end) {
    while (Clock::now() < end) {
      const bool warm = Clock::now() - begin > (end - begin) / 4;
      if (warm) {
        usage_.push_back(metric("kv_cache_usage_perc"));
        held_.push_back(holding_of(server_->pid()));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  // The least of the last third beside the most of the first.
  void expect_no_growth() const {
    const size_t third = held_.size() / 3;
    ASSERT_GT(third, 0U);
    ProcessHolding early, late{INT64_MAX, INT64_MAX, INT64_MAX};
    for (size_t i = 0; i < third; ++i) {
      const ProcessHolding &first = held_[i], &last = held_[held_.size() - 1 - i];
      early.files = std::max(early.files, first.files);
      early.rss_kib = std::max(early.rss_kib, first.rss_kib);
      late.files = std::min(late.files, last.files);
      late.rss_kib = std::min(late.rss_kib, last.rss_kib);
    }
    EXPECT_LE(late.files, early.files + 2);
    EXPECT_LE(late.rss_kib, early.rss_kib + 8 * 1024);
    fmt::print("server: files {} -> {}, RSS {} -> {} KiB\n", early.files, late.files, early.rss_kib,
               late.rss_kib);
  }

  std::atomic<int64_t> answered_{0}, left_{0};
  std::vector<double> usage_;
  std::vector<ProcessHolding> held_;
};

TEST_F(ServeSoakTest, AFullCacheRepeatsLittleAndNothingGrows) {
  serve(long_model() + fmt::format(" --mesh pp=2 --pages {} --max-context 1024", kPages));
  const ProcessHolding before = holding_of(server_->pid());
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end = begin + std::chrono::seconds(soak_seconds());
  std::vector<std::thread> clients;
  for (uint64_t i = 0; i < kClients; ++i) {
    clients.emplace_back([this, i, end] { be_a_client(i + 1, end); });
  }
  watch(begin, end);
  for (std::thread& client : clients) client.join();
  ASSERT_FALSE(usage_.empty());
  double sum = 0;
  for (const double one : usage_) sum += one;
  const double mean = sum / static_cast<double>(usage_.size());
  const double most = *std::max_element(usage_.begin(), usage_.end());
  const double recomputed = metric("recomputed_tokens_total");
  const double computed = metric("prompt_tokens_total") + metric("generation_tokens_total");
  fmt::print(
      "{} answers, {} that left; pages in use: {:.1f} % on average, {:.1f} % at most; {} of {} "
      "tokens "
      "computed again ({:.2f} %), {} preemptions\n",
      answered_.load(), left_.load(), 100 * mean, 100 * most, recomputed, computed,
      100 * recomputed / computed, metric("num_preemptions_total"));
  EXPECT_GT(answered_, 0);
  EXPECT_GE(most, 0.95) << "the cache was never full";
  EXPECT_LE(recomputed, 0.02 * computed);
  expect_no_growth();
  EXPECT_TRUE(wait_until(
      [&] { return metric("kv_cache_usage_perc") == 0 && metric("http_requests_open") == 0; }));
  EXPECT_TRUE(wait_until([&] { return holding_of(server_->pid()).files <= before.files; }))
      << holding_of(server_->pid()).files << " files, " << before.files << " before";
  EXPECT_EQ(holding_of(server_->pid()).threads, before.threads);
  server_->signal(SIGTERM);
  EXPECT_EQ(server_->finish().code, 0);
}

}  // namespace
}  // namespace tessera
