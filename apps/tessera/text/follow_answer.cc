#include "text/follow_answer.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kLook{20};  // at a signal

// Hands parts from the desk's threads to the one that waits for them.
class Feed final : public serve::AnswerSink {
 public:
  void part(int64_t, serve::TextPart part, std::optional<serve::FinishReason> reason) override {
    change([&] {
      part_.append(std::move(part));
      if (reason.has_value()) end_.reason = *reason;
    });
  }
  void finished(const serve::GenerationUsage& usage) override {
    change([&] {
      end_.usage = usage;
      over_ = true;
    });
  }
  void failed(const serve::ApiError& error) override {
    change([&] {
      error_ = error;
      over_ = true;
    });
  }

  struct News {
    serve::TextPart part;
    bool over = false;
    std::optional<serve::ApiError> error = {};
  };
  News wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLook, [&] { return over_ || !part_.empty(); });
    return {std::exchange(part_, {}), over_, error_};
  }
  [[nodiscard]] AnswerEnd end() const { return end_; }

 private:
  template <typename Change>
  void change(const Change& change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  serve::TextPart part_;  // not taken yet
  AnswerEnd end_;
  bool over_ = false;
  std::optional<serve::ApiError> error_;
};

}  // namespace

AnswerEnd follow_answer(serve::AnswerDesk& desk, const serve::StartedModel& model,
                        const std::shared_ptr<const serve::Asked>& asked,
                        const std::function<void(const serve::TextPart&)>& part,
                        const std::function<bool()>& unwanted) {
  const auto feed = std::make_shared<Feed>();
  std::weak_ptr<serve::Answer> answer;
  try {
    desk.start(asked, [&](const std::weak_ptr<serve::Answer>& started) {
      answer = started;
      return feed;
    });
  } catch (const serve::ApiError& error) {
    throw failure_to_answer(error, model);
  }
  while (true) {
    const Feed::News news = feed->wait();
    if (!news.part.empty()) part(news.part);
    if (news.error.has_value()) throw failure_to_answer(*news.error, model);
    if (news.over) return feed->end();
    if (!unwanted()) continue;
    if (const auto live = answer.lock()) live->cancel();
    part(feed->wait().part);  // what came meanwhile
    return {.reason = serve::FinishReason::kCancelled, .usage = {}};
  }
}

Error failure_to_answer(const serve::ApiError& error, const serve::StartedModel& model) {
  constexpr std::string_view kNotFinite = "NaN or Inf";  // as the engine says it
  if (std::string_view(error.what()).find(kNotFinite) != std::string_view::npos) {
    return Error(fmt::format("'{}': the model says nothing that is finite: its weights hold NaN or "
                             "Inf; train it again with a lower optimizer.lr",
                             model.plan().options.model),
                 ExitCode::kDiverged);
  }
  if (const auto loss = model.gave_up()) return Error(loss->reason, loss->code);
  if (error.status() == 400) return ConfigError(error.what());
  return Error(error.what());
}

}  // namespace tessera
