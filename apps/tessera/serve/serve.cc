// `tessera serve`: a model behind OpenAI's API, from its start to its end in order.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/text/printable.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/output_flags.h"
#include "http/server.h"
#include "launch/stop_signals.h"
#include "listen/listen_address.h"
#include "serve/api/routes.h"
#include "serve/api_key.h"
#include "serve/serve_command.h"
#include "serve/serve_summary.h"
#include "serve/start_request.h"

namespace tessera {
namespace {

using serve::GeneratorLoss;
using serve::ServeApi;
using serve::StartedModel;
using std::chrono::milliseconds;

constexpr milliseconds kLookEvery{20};
// For clients to be told of an end that nobody asked for.
constexpr milliseconds kTellTime{3'000};

milliseconds milliseconds_of(double seconds) { return milliseconds(std::llround(seconds * 1e3)); }

// Lines of several threads, one at a time.
class Speaker {
 public:
  explicit Speaker(Console& console) : console_(console) {}
  void say(const std::string& text) {
    const std::lock_guard lock(mutex_);
    console_.err << fitted_err(console_, "tessera: " + printable(text)) << std::endl;
  }

 private:
  std::mutex mutex_;
  Console& console_;
};

void check(const ServeCommandOptions& options, const std::string& key) {
  check_port(options.port);
  require_config(is_loopback(options.host) || !key.empty(),
                 "--host {} lets others in: give --api-key-file FILE or TESSERA_API_KEY as well, "
                 "such as the output of `openssl rand -hex 16`, or keep 127.0.0.1 and use ssh -L",
                 options.host);
}

serve::ApiOptions api_options(const ServeCommandOptions& options, const StartedModel& model,
                              const std::string& key, Speaker& speaker) {
  serve::ApiOptions api;
  api.model = model.served();
  api.model.longest = milliseconds_of(options.timeout_s);
  api.api_key = key;
  api.loopback_only = is_loopback(options.host);
  if (options.log_requests) api.log = [&](const std::string& text) { speaker.say(text); };
  return api;
}

// Most systems begin with 1,024 descriptors, which is fewer than a server has connections. What the
// system does not give is missed only when so many come.
void allow_connections(const http::ServerOptions& server) {
  constexpr rlim_t kOthers = 256;  // files, ranks
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto connections = static_cast<rlim_t>(server.most_connections + server.spare_connections);
  const rlim_t wanted = std::min(limit.rlim_max, connections + kOthers);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

std::unique_ptr<http::Server> open_server(const ServeCommandOptions& options, ServeApi& api) {
  http::ServerOptions server = api.server_options();
  allow_connections(server);
  server.address = listen_address(options.host);
  server.port = static_cast<uint16_t>(options.port);
  return std::make_unique<http::Server>(server, api.handler());
}

// The engine answers, or it never will.
bool wait_until_ready(const ServeApi& api, const StartedModel& model,
                      const InterruptGuard& interrupt) {
  while (!api.why_not_ready().empty()) {
    if (interrupt.interrupted() || model.gave_up().has_value()) return false;
    std::this_thread::sleep_for(kLookEvery);
  }
  return true;
}

void announce(const ServeCommandOptions& options, const serve::StartOptions& start,
              const StartedModel& model, uint16_t port, Console& console) {
  const std::string url = link_to(options.host, port);
  if (options.json) {
    console.out << summary_json(start, model, url).dump() << std::endl;
    return;
  }
  if (!console.quiet) console.err << fitted_err(console, summary_text(start, model));
  console.out << "listening on " << url << std::endl;
}

int end_in_order(const ServeCommandOptions& options, int signal, ServeApi& api, Speaker& speaker,
                 const Console& console) {
  api.begin_drain();
  if (!console.quiet && api.open() > 0) {
    speaker.say(fmt::format("{}: finishing {} request{}, at most {:g} s; again ends at once",
                            describe_stop(signal), api.open(), api.open() == 1 ? "" : "s",
                            options.drain_s));
  }
  if (api.wait_until_answered(milliseconds_of(options.drain_s))) return 0;
  speaker.say(fmt::format("{} request{} took longer than --drain {:g} and got no whole answer",
                          api.open(), api.open() == 1 ? "" : "s", options.drain_s));
  api.end_all();
  (void)api.wait_until_answered(kTellTime);
  return 0;
}

[[noreturn]] void end_with_loss(const GeneratorLoss& loss, ServeApi& api) {
  api.begin_drain();
  (void)api.wait_until_answered(kTellTime);
  throw Error(loss.reason, loss.code);
}

int serve_until_the_end(const ServeCommandOptions& options, const serve::StartOptions& start,
                        StartedModel& model, const std::string& key,
                        const InterruptGuard& interrupt, Speaker& speaker, Console& console) {
  ServeApi api(model.generator(), api_options(options, model, key, speaker));
  const auto server = open_server(options, api);
  if (wait_until_ready(api, model, interrupt)) {
    announce(options, start, model, server->port(), console);
  }
  while (!interrupt.interrupted()) {
    if (const auto loss = model.gave_up()) end_with_loss(*loss, api);
    std::this_thread::sleep_for(kLookEvery);
  }
  return end_in_order(options, interrupt.signal(), api, speaker, console);
}

void add_model_flags(CLI::App& app, ServeCommandOptions& options) {
  must_be_given(add_text(app, "model", options.model, "RUN|DIR",
                         "the directory of a run, a checkpoint, or a Hugging Face folder"));
  add_text(
      app, "--mesh", options.mesh, "MESH",
      "ranks: dp replicas, each split by tp, pp and ep, such as dp=2,tp=2 (default: one rank)");
  add_choice(app, "--dtype", options.dtype, "f64|f32|bf16",
             "of weights, activations and cache (default f32)");
  add_choice(app, "--device", options.device, "cpu|cuda", "where it runs (default cpu)");
  add_switch(app, "--threads", options.threads,
             "ranks as threads of this process; without it one rank is a thread, and several are "
             "processes, which can be started again");
  add_whole(app, "--restarts", options.restarts, 0,
            fmt::format("how often the processes of a replica are started again after a loss "
                        "(default {}); one rank becomes a process for it",
                        kUsualRestarts));
  add_text(app, "--tokenizer", options.tokenizer, "DIR",
           "a folder with a tokenizer.json (default: the model's, else bytes or ids)");
  add_text(app, "--chat-template", options.chat_template, "FILE",
           "a Jinja template (default: that of the model's folder)");
  add_text(app, "--name", options.name, "NAME",
           "what requests call the model (default: the name of its folder)");
}

void add_engine_flags(CLI::App& app, ServeCommandOptions& options) {
  add_length(app, "--max-context", options.max_context,
             "tokens of a prompt and its answer together (default: what the model was made for)");
  add_whole(app, "--max-sequences", options.max_sequences, 1,
            "answers that are written at once (default 64)");
  add_length(app, "--token-budget", options.token_budget,
             "tokens of one step: of all answers, and of prompts in chunks (default 2048)");
  add_whole(app, "--page", options.page, 1, "tokens of a page of the cache (default 16)");
  add_whole(
      app, "--pages", options.pages, 1,
      "pages of a replica's cache (default: what fits, at most what all sequences fill 4 times)");
  add_real(app, "--memory-gib", options.memory_gib, 0,
           "memory of all ranks together, in GiB, all of it used; 0 is what is free (default)");
  add_choice(app, "--admission", options.admission, "guarantee|expected",
             "begin a request when its longest answer has room, or one of the usual length "
             "(default expected)");
  add_switch(app, "--no-prefix-cache", options.no_prefix_cache,
             "compute every prompt from its beginning");
  add_output_file(app, "--trace", options.trace, kTraceOutput, "FILE.json",
                  "write what every rank did when, for chrome://tracing or Perfetto");
}

void add_server_flags(CLI::App& app, ServeCommandOptions& options) {
  add_whole(app, "--port", options.port, 0,
            "port to listen on; 0 is any that is free (default 8000)");
  add_text(app, "--host", options.host, "ADDRESS",
           "address to listen on (default 127.0.0.1); any other than loopback needs a key");
  add_text(app, "--api-key-file", options.api_key_file, "FILE",
           "what clients must know, 16 characters or more, in the first line (default: "
           "TESSERA_API_KEY, else none)");
  add_whole(app, "--queue", options.queue, 0,
            "requests that may wait for each replica; more are answered 429 (default 256)");
  add_real(app, "--timeout", options.timeout_s, 0,
           "seconds that a request may take; 0 is as many as it takes (default)");
  add_real(app, "--drain", options.drain_s, 0,
           "seconds for running requests after SIGTERM or ^C (default 30)");
  add_switch(app, "--log-requests", options.log_requests,
             "a line on standard error for each, without what it says");
  add_switch(app, "--json", options.json, "print one line of JSON when it listens");
}

}  // namespace

Command add_serve(CLI::App& root, const Environment& environment) {
  CLI::App* app =
      add_command(root, "serve",
                  {"Serve a model behind OpenAI's HTTP API, with the splits it was trained with.",
                   "tessera serve runs/demo --port 8000",
                   "tessera generate --run runs/demo --prompt \"Once upon a time\""});
  auto options = std::make_shared<ServeCommandOptions>();
  add_model_flags(*app, *options);
  add_server_flags(*app, *options);
  add_engine_flags(*app, *options);
  return {app, [options, &environment](Console& console) {
            return run_serve(*options, environment, console);
          }};
}

int run_serve(const ServeCommandOptions& options, const Environment& environment,
              Console& console) {
  const std::string key = api_key(options.api_key_file, environment);
  check(options, key);
  serve::StartOptions start = start_request(options, environment);
  const InterruptGuard interrupt;
  Speaker speaker(console);
  if (!console.quiet) start.say = [&](const std::string& text) { speaker.say(text); };
  start.cancelled = [&] { return interrupt.interrupted(); };
  std::unique_ptr<StartedModel> model;
  try {
    model = serve::start_model(start);
  } catch (const Error&) {
    if (interrupt.interrupted()) return kSignalCode + interrupt.signal();
    throw;
  }
  return serve_until_the_end(options, start, *model, key, interrupt, speaker, console);
}

}  // namespace tessera
