#include "bench/bench_serve.h"

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/bench_serve_client.h"
#include "bench/bench_serve_report.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "launch/stop_signals.h"
#include "serve/api_key.h"

namespace tessera {
namespace {

constexpr int64_t kMostRequests = 1'000'000;  // the times of each are kept
constexpr int64_t kMostTokens = 1'000'000;
constexpr int64_t kMostAtOnce = 20'000;
constexpr int64_t kOpenLoopAtOnce = 4096;
constexpr int64_t kUsualRequests = 100;
constexpr double kMostSeconds = 7 * 86'400.0;

void require_below(const char* flag, int64_t value, int64_t most) {
  require_config(value <= most, "{} is {}: use {} or less", flag, value, most);
}

void check(const BenchServeOptions& options) {
  require_below("--requests", options.requests, kMostRequests);
  require_below("--concurrency", options.concurrency, kMostAtOnce);
  require_below("--prompt-tokens", options.load.prompt_tokens, kMostTokens);
  require_below("--answer-tokens", options.load.answer_tokens, kMostTokens);
  require_config(options.load.spread < 1, "--spread is {}: use a share below 1",
                 options.load.spread);
  require_config(options.load.shared_prefix <= 1, "--shared-prefix is {}: use a share up to 1",
                 options.load.shared_prefix);
  require_config(options.timeout_s > 0 && options.timeout_s <= kMostSeconds,
                 "--timeout is {}: use seconds, more than 0", options.timeout_s);
  require_config(options.seconds <= kMostSeconds, "--seconds is {}: use {} or less",
                 options.seconds, kMostSeconds);
}

ClientOptions client_options(const BenchServeOptions& options, const Environment& environment) {
  ClientOptions client;
  client.target = parse_target_url(options.target);
  client.api_key = api_key(options.api_key_file, environment);
  client.seconds = options.seconds;
  client.requests = options.requests > 0  ? options.requests
                    : options.seconds > 0 ? kMostRequests
                                          : kUsualRequests;
  const int64_t usual = options.load.rate > 0 ? kOpenLoopAtOnce : 1;
  client.concurrency = options.concurrency > 0 ? options.concurrency : usual;
  client.timeout = std::chrono::milliseconds(std::llround(options.timeout_s * 1e3));
  return client;
}

}  // namespace

Command add_bench_serve(CLI::App& bench, const Environment& environment) {
  CLI::App* app = add_command(
      bench, "serve",
      {"Measure a server that speaks OpenAI's API: times to tokens, tokens/s, failures.",
       "tessera bench serve --target http://127.0.0.1:8000 --rate 4 --slo ttft=200,tpot=20",
       "tessera bench decode --help"});
  auto options = std::make_shared<BenchServeOptions>();
  LoadShape& load = options->load;
  add_text(*app, "--target", options->target, "URL", "the server (default http://127.0.0.1:8000)");
  add_real(*app, "--rate", load.rate, 0,
           "requests per second, at random times; 0: each follows an answer (default 0)");
  add_whole(*app, "--concurrency", options->concurrency, 1,
            "requests at once (default 1; with --rate at most 4096)");
  add_whole(*app, "--requests", options->requests, 1, "in all (default 100)");
  add_real(*app, "--seconds", options->seconds, 0,
           "after which no request begins, instead of a number of them");
  add_whole(*app, "--prompt-tokens", load.prompt_tokens, 1, "of a request (default 512)");
  add_whole(*app, "--answer-tokens", load.answer_tokens, 1, "that are asked for (default 256)");
  add_real(*app, "--spread", load.spread, 0,
           "lengths differ by up to this share of them (default 0)");
  add_real(*app, "--shared-prefix", load.shared_prefix, 0,
           "share of every prompt that all begin with (default 0)");
  add_whole(*app, "--vocab", load.vocab, 1, "prompts are token ids below this (default 256)");
  add_switch(*app, "--text", load.text, "prompts are words, about one for each token");
  add_switch(*app, "--chat", load.chat, "ask for chat completions, with words");
  add_switch(*app, "--may-end", options->may_end, "answers may be shorter than they are asked for");
  add_text(*app, "--model", load.model, "ID", "that requests name (default: the first listed)");
  add_whole(*app, "--seed", options->seed, 0, "of prompts, lengths and times (default 1)");
  add_text(*app, "--slo", options->slo, "MS",
           "count answers within limits: \"ttft=200,tpot=20,e2e=5000\"");
  add_real(*app, "--timeout", options->timeout_s, 0, "seconds of a request (default 120)");
  add_text(*app, "--api-key-file", options->api_key_file, "FILE",
           "the server's key, in its first line (default TESSERA_API_KEY)");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options, &environment](Console& console) {
            return run_bench_serve(*options, environment, console);
          }};
}

int run_bench_serve(BenchServeOptions options, const Environment& environment, Console& console) {
  check(options);
  options.load.seed = static_cast<uint64_t>(options.seed);
  options.load.ignore_end = !options.may_end;
  ClientOptions client = client_options(options, environment);
  ServeReport report;
  report.level = parse_service_level(options.slo);
  if (options.load.model.empty()) options.load.model = first_model(client);
  report.target = options.target;
  report.load = options.load;
  report.concurrency = client.concurrency;
  const InterruptGuard interrupt;
  client.stopped = [&] { return interrupt.interrupted(); };
  LoadPlan plan(options.load);
  ClientResult result = run_load(plan, client);
  report.samples = std::move(result.samples);
  report.seconds = result.seconds;
  report.interrupted = result.interrupted;
  if (options.json) {
    console.out << serve_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
                << '\n';
  } else {
    console.out << fitted(console, serve_text(report));
  }
  if (interrupt.interrupted()) return kSignalCode + interrupt.signal();
  // Some failures are part of what is measured; nothing but failures is none.
  int64_t failed = 0;
  for (const auto& [kind, count] : failures_of(report.samples)) failed += count;
  const bool all_failed = failed > 0 && failed == std::ssize(report.samples);
  return all_failed ? static_cast<int>(ExitCode::kFailed) : 0;
}

}  // namespace tessera
