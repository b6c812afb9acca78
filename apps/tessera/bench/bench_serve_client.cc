#include "bench/bench_serve_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "bench/bench_serve_exchange.h"

namespace tessera {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookEvery{50};
constexpr std::chrono::milliseconds kPauseAfterFailure{10};
constexpr size_t kMostRefusalBytes = size_t{64} << 10;
constexpr size_t kMostListBytes = size_t{1} << 20;  // of models

ServeExchange::Message message_to(const ClientOptions& options, beast::http::verb method,
                                  const std::string& path) {
  ServeExchange::Message message(method, options.target.prefix + path, 11);
  message.set(beast::http::field::host, options.target.authority());
  message.set(beast::http::field::user_agent, "tessera-bench");
  if (!options.api_key.empty()) {
    message.set(beast::http::field::authorization, "Bearer " + options.api_key);
  }
  return message;
}

ServeExchange::Endpoints resolve(asio::io_context& context, const ServeTarget& target) {
  asio::ip::tcp::resolver resolver(context);
  beast::error_code failure;
  auto endpoints = resolver.resolve(target.host, target.port, failure);
  require(!failure, "--target: no address of '{}': {}", target.host, failure.message());
  return endpoints;
}

// A whole load, from its first request to its last answer.
class Load {
 public:
  Load(LoadPlan& plan, const ClientOptions& options)
      : plan_(plan),
        options_(options),
        endpoints_(resolve(context_, options.target)),
        arrival_(context_),
        look_(context_) {}

  ClientResult run() {
    start_ = Clock::now();
    open_loop_ = plan_.shape().rate > 0;
    look();
    if (open_loop_) {
      next_ = plan_.next();
      wait_for_arrival();
    } else {
      for (int64_t i = 0; i < options_.concurrency; ++i) begin_next();
    }
    context_.run();
    result_.seconds = last_end_s_;
    return std::move(result_);
  }

 private:
  struct Asked {
    AnswerSample sample;
    AnswerReader reader{sample};
    int status = 0;
    std::string refusal;
    bool sample_ok = false;
  };

  [[nodiscard]] double now() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  [[nodiscard]] bool may_begin(double at_s) const {
    return !result_.interrupted && (options_.requests == 0 || begun_ < options_.requests) &&
           (options_.seconds == 0 || at_s < options_.seconds);
  }

  void look() {
    look_.expires_after(kLookEvery);
    look_.async_wait([this](beast::error_code failure) {
      if (failure) return;
      if (options_.stopped && options_.stopped()) {
        result_.interrupted = true;
        context_.stop();
        last_end_s_ = now();
        return;
      }
      look();
    });
  }

  void wait_for_arrival() {
    if (!may_begin(next_.at_s)) {
      last_has_begun_ = true;
      return end_if_idle();
    }
    arrival_.expires_at(start_ + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(next_.at_s)));
    arrival_.async_wait([this](beast::error_code failure) {
      if (failure) return;
      const PlannedRequest request = std::exchange(next_, plan_.next());
      if (open_ < options_.concurrency) {
        begin(request, request.at_s);
      } else {
        refuse(request);
      }
      wait_for_arrival();
    });
  }

  // More than the client may have open is told, not hidden: waiting would slow the load down.
  void refuse(const PlannedRequest& request) {
    AnswerSample sample;
    sample.asked_s = request.at_s;
    sample.sent_s = sample.ended_s = now();
    sample.failure = "more than --concurrency at once";
    ++begun_;
    result_.samples.push_back(std::move(sample));
  }

  void begin_next() {
    const double at = now();
    if (!may_begin(at)) {
      last_has_begun_ = true;
      return end_if_idle();
    }
    begin(plan_.next(), at);
  }

  void begin(const PlannedRequest& request, double asked_s) {
    auto message = message_to(options_, beast::http::verb::post, plan_.path());
    message.set(beast::http::field::content_type, "application/json");
    message.set(beast::http::field::accept, "text/event-stream");
    message.body() = plan_.body(begun_++, request);
    message.prepare_payload();
    std::shared_ptr<ServeConnection> connection;
    if (idle_.empty()) {
      connection = std::make_shared<ServeConnection>(context_.get_executor());
    } else {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
    const auto asked = std::make_shared<Asked>();
    asked->sample.prompt_tokens = request.prompt_tokens;
    asked->sample.asked_s = asked_s;
    ++open_;
    ServeExchange::Handlers handlers;
    handlers.on_head = [asked](int status) { asked->status = status; };
    handlers.on_body = [this, asked](std::string_view part) { take(*asked, part); };
    handlers.on_end = [this, asked](const std::string& failure,
                                    std::shared_ptr<ServeConnection> reusable) {
      finish(*asked, failure);
      if (reusable != nullptr) idle_.push_back(std::move(reusable));
      if (!open_loop_) follow(asked->sample_ok);
      end_if_idle();
    };
    asked->sample.sent_s = now();
    std::make_shared<ServeExchange>(connection, std::move(message), std::move(handlers))
        ->start(endpoints_, Clock::now() + options_.timeout);
  }

  void take(Asked& asked, std::string_view part) const {
    if (asked.status == 200) {
      static_cast<void>(asked.reader.feed(part, now()));
    } else if (asked.refusal.size() < kMostRefusalBytes) {
      asked.refusal += part;
    }
  }

  void finish(Asked& asked, const std::string& failure) {
    --open_;
    AnswerSample& sample = asked.sample;
    last_end_s_ = sample.ended_s = now();
    if (!failure.empty()) {
      // What a stream has said of its failure is worth more than that it broke off.
      if (sample.ok()) sample.failure = failure;
    } else if (asked.status != 200) {
      sample.failure = fmt::format("status {}", asked.status);
      sample.detail = refusal_text(asked.refusal);
    } else {
      asked.reader.end(last_end_s_);
    }
    asked.sample_ok = sample.ok();
    result_.samples.push_back(std::move(sample));
  }

  // The next request of a closed loop: after a failure not at once, so that a server that refuses
  // everything is not asked as fast as a loop turns.
  void follow(bool ok) {
    if (ok) return begin_next();
    const auto pause = std::make_shared<asio::steady_timer>(context_, kPauseAfterFailure);
    ++pausing_;
    pause->async_wait([this, pause](beast::error_code /*failure*/) {
      --pausing_;
      begin_next();
    });
  }

  void end_if_idle() {
    if (open_ > 0 || pausing_ > 0 || !last_has_begun_) return;
    look_.cancel();
    arrival_.cancel();
  }

  LoadPlan& plan_;
  const ClientOptions& options_;
  asio::io_context context_;
  const ServeExchange::Endpoints endpoints_;
  asio::steady_timer arrival_;
  asio::steady_timer look_;
  std::vector<std::shared_ptr<ServeConnection>> idle_;
  Clock::time_point start_;
  PlannedRequest next_;
  ClientResult result_;
  double last_end_s_ = 0;
  int64_t begun_ = 0, open_ = 0, pausing_ = 0;
  bool open_loop_ = false, last_has_begun_ = false;
};

}  // namespace

std::string ServeTarget::authority() const {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}:{}", v6 ? "[" + host + "]" : host, port);
}

ServeTarget parse_target_url(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  require_config(!lower_case(url).starts_with("https://"),
                 "--target {}: there is no TLS here; measure the server behind the proxy, or use "
                 "ssh -L",
                 in_quotes(url));
  require_config(lower_case(url).starts_with(kScheme),
                 "--target is {}: expected a server, such as http://127.0.0.1:8000",
                 in_quotes(url));
  const std::string_view rest = std::string_view(url).substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view place = rest.substr(0, slash);
  ServeTarget target;
  target.prefix = rest.substr(slash);
  while (target.prefix.ends_with('/')) target.prefix.pop_back();
  if (target.prefix.ends_with("/v1")) target.prefix.resize(target.prefix.size() - 3);
  const size_t bracket = place.rfind(']');
  const size_t colon = place.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  target.host = place.substr(0, has_port ? colon : place.size());
  if (target.host.starts_with('[') && target.host.ends_with(']')) {
    target.host = target.host.substr(1, target.host.size() - 2);
  }
  if (has_port) target.port = place.substr(colon + 1);
  const bool digits = !target.port.empty() && target.port.size() <= 5 &&
                      std::all_of(target.port.begin(), target.port.end(),
                                  [](char c) { return c >= '0' && c <= '9'; });
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7f; };
  const bool plain = std::all_of(url.begin(), url.end(), is_plain);
  require_config(!target.host.empty() && digits && plain,
                 "--target is {}: expected a server, such as http://127.0.0.1:8000",
                 in_quotes(url));
  return target;
}

ClientResult run_load(LoadPlan& plan, const ClientOptions& options) {
  return Load(plan, options).run();
}

std::string first_model(const ClientOptions& options) {
  asio::io_context context;
  const ServeExchange::Endpoints endpoints = resolve(context, options.target);
  std::string body, failure;
  int status = 0;
  ServeExchange::Handlers handlers;
  handlers.on_head = [&](int code) { status = code; };
  handlers.on_body = [&](std::string_view part) {
    if (body.size() < kMostListBytes) body += part;
  };
  handlers.on_end = [&](const std::string& text, const auto& /*reusable*/) { failure = text; };
  std::make_shared<ServeExchange>(std::make_shared<ServeConnection>(context.get_executor()),
                                  message_to(options, beast::http::verb::get, "/v1/models"),
                                  std::move(handlers))
      ->start(endpoints, Clock::now() + options.timeout);
  context.run();
  const std::string at = fmt::format("http://{}", options.target.authority());
  require(failure.empty(), "{} does not answer ({}): start a server, such as tessera serve MODEL",
          at, failure);
  require(status == 200, "{}/v1/models says {}: {}", at, status, refusal_text(body));
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto found = json.is_object() ? json.find("data") : json.end();
  const bool lists = json.is_object() && found != json.end() && found->is_array() &&
                     !found->empty() && found->front().is_object() &&
                     found->front().value("id", nlohmann::json()).is_string();
  require(lists, "{}/v1/models lists no model: name one with --model", at);
  return found->front().at("id").get<std::string>();
}

}  // namespace tessera
