#include "text/batch_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "cli/interrupt.h"
#include "cli/redrawn_line.h"
#include "serve/api/asked.h"
#include "text/batch_progress.h"
#include "text/batch_results.h"
#include "text/follow_answer.h"
#include "train/verify/model_folder.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{50};  // at a signal
constexpr int kQueueFull = 429, kUnavailable = 503;
// Answers that wait for one before them, for each request in flight.
constexpr int64_t kAhead = 8;
constexpr int kWorkers = 2;  // make text of tokens

// A request that has been read and not been taken yet.
struct Prepared {
  int64_t place = 0;
  RequestLine request;
  std::shared_ptr<const serve::Asked> asked;
};

class BatchRun {
 public:
  BatchRun(const AnswerFileOptions& options, serve::StartedModel& model, RequestLines& requests,
           AnswerLines& answers)
      : options_(options),
        model_(model),
        requests_(requests),
        answers_(answers),
        desk_(model.generator(), metrics_, *model.served().words, kWorkers) {}

  // As many requests as may be worked on.
  void submit();
  // Writes what has come, in order. False: all that there is to answer is written.
  bool take();
  // Writes what had come in order when the model was lost.
  void take_rest();

  int64_t written = 0, errors = 0, tokens = 0;

 private:
  [[nodiscard]] bool has_room() const {
    return read_ - results_->come() < options_.in_flight &&
           read_ - results_->taken() < options_.in_flight * kAhead;
  }
  void write(const BatchResult& result);
  bool prepare();
  // False: not now.
  bool start();

  const AnswerFileOptions& options_;
  serve::StartedModel& model_;
  RequestLines& requests_;
  AnswerLines& answers_;
  const std::shared_ptr<BatchResults> results_ = std::make_shared<BatchResults>();
  std::optional<Prepared> prepared_;
  int64_t read_ = 0;  // requests
  int64_t seen_ = 0;  // answers that had come when requests were submitted
  bool at_end_ = false;
  serve::ServeMetrics metrics_;
  serve::AnswerDesk desk_;  // ends first: nothing comes afterwards
};

// True: one waits to be started.
bool BatchRun::prepare() {
  while (!prepared_.has_value() && has_room() && !at_end_) {
    std::optional<RequestLine> line = requests_.next();
    at_end_ = !line.has_value();
    if (at_end_) break;
    const int64_t place = read_++;
    try {
      nlohmann::ordered_json body = body_of_request(*line);
      fill_request(options_.sampling, line->number, body);
      auto asked =
          std::make_shared<serve::Asked>(serve::read_either(body.dump(), model_.served(), nullptr));
      prepared_ = {place, std::move(*line), std::move(asked)};
    } catch (const serve::ApiError& error) {
      results_->put(place, {.line = line_of_error(*line, error), .is_error = true});
    } catch (const ConfigError& error) {
      results_->put(place, {.line = line_of_error(*line, {400, "invalid_json", "", error.what()}),
                            .is_error = true});
    }
  }
  return prepared_.has_value();
}

bool BatchRun::start() {
  try {
    desk_.start(prepared_->asked, [&](const std::weak_ptr<serve::Answer>&) {
      return whole_answer(results_, prepared_->place, prepared_->request, prepared_->asked,
                          model_.served());
    });
  } catch (const serve::ApiError& error) {
    if (error.status() == kQueueFull) return false;
    if (error.status() == kUnavailable) throw failure_to_answer(error, model_);
    results_->put(prepared_->place,
                  {.line = line_of_error(prepared_->request, error), .is_error = true});
  }
  prepared_.reset();
  return true;
}

void BatchRun::submit() {
  seen_ = results_->come();
  while (prepare() && start()) {
  }
}

bool BatchRun::take() {
  while (true) {
    const bool all = at_end_ && !prepared_.has_value() && results_->taken() == read_;
    if (all) return false;
    BatchResults::News news = results_->wait(kLook, seen_);
    if (news.failure.has_value()) throw failure_to_answer(*news.failure, model_);
    if (!news.next.has_value()) return true;
    write(*news.next);
    if (has_room() && !at_end_) return true;
  }
}

void BatchRun::take_rest() {
  while (const auto next = results_->wait(std::chrono::milliseconds(0), seen_).next) write(*next);
}

void BatchRun::write(const BatchResult& result) {
  answers_.append(result.line);
  ++written;
  errors += result.is_error ? 1 : 0;
  tokens += result.tokens;
}

std::string summary_of(const std::string& out, const BatchOutcome& outcome, double seconds) {
  return fmt::format(
      "{}: {}{}, {} in {}\n", out, count_of(outcome.answers, "answer"),
      outcome.errors > 0 ? fmt::format(" ({})", count_of(outcome.errors, "error")) : "",
      count_of(outcome.tokens, "token"), short_duration(seconds));
}

}  // namespace

BatchOutcome answer_requests(const AnswerFileOptions& options, serve::StartedModel& model,
                             RequestLines& requests, AnswerLines& answers, AnswerLines::Found found,
                             int64_t total, const std::function<bool()>& unwanted,
                             Console& console) {
  BatchRun run(options, model, requests, answers);
  RedrawnLine shown(console);
  const Clock::time_point begin = Clock::now();
  const auto show = [&](bool last) {
    const BatchProgress progress = {
        .done = found.answers + run.written,
        .total = total,
        .errors = found.errors + run.errors,
        .before = found.answers,
        .tokens = run.tokens,
        .seconds = std::chrono::duration<double>(Clock::now() - begin).count()};
    shown.update([&](int columns) { return batch_text(progress, columns); }, last);
  };
  bool more = true;
  try {
    while (more && !unwanted()) {
      run.submit();
      more = run.take();
      show(!more);
    }
  } catch (const IoError&) {
    throw;  // says so itself
  } catch (const Error& error) {
    run.take_rest();
    throw Error(
        fmt::format("{}; {} in {}, and the same command goes on with the rest", error.what(),
                    count_of(found.answers + run.written, "answer"), options.files.out),
        error.code());
  }
  return {.answers = found.answers + run.written,
          .errors = found.errors + run.errors,
          .tokens = run.tokens,
          .stopped = more};
}

int answer_file(const AnswerFileOptions& options, Console& console) {
  const BatchFiles& files = options.files;
  const InterruptGuard interrupt;
  const auto unwanted = [&] { return interrupt.interrupted(); };
  RequestLines requests(files.in);
  const std::optional<int64_t> total = count_requests(files.in);
  require_config(total != 0, "--in is '{}', which has no requests", files.in);
  AnswerLines answers(files.out, files.overwrite);
  const AnswerLines::Found found = answers.go_on(requests);
  BatchOutcome outcome = {.answers = found.answers, .errors = found.errors};
  const Clock::time_point begin = Clock::now();
  if (!total.has_value() || found.answers < *total) {
    serve::StartOptions start = start_options(options.model);
    const serve::ContextLimits limits =
        serve::context_limits(open_model_folder(options.model.model));
    start.ranks.max_context = context_of(options.model, limits, console);
    start.most_waiting = options.in_flight * static_cast<int64_t>(serve::kMostPrompts);
    const auto model = start_unless(unwanted, std::move(start));
    if (model != nullptr) {
      outcome = answer_requests(options, *model, requests, answers, found, total.value_or(0),
                                unwanted, console);
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (interrupt.interrupted()) {
    console.err << fitted_err(
        console, fmt::format("tessera: stopped by {}: {} has {}; the same command goes on with "
                             "the rest\n",
                             describe_stop(interrupt.signal()), files.out,
                             count_of(outcome.answers, "answer")));
    return kSignalCode + interrupt.signal();
  }
  console.out << summary_of(files.out, outcome, seconds);
  return outcome.errors > 0 ? static_cast<int>(ExitCode::kFailed) : 0;
}

}  // namespace tessera
