#include "text/batch_results.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "serve/api/answer_json.h"
#include "text/answer_lines.h"

namespace tessera {
namespace {

class WholeAnswer final : public serve::AnswerSink {
 public:
  WholeAnswer(std::shared_ptr<BatchResults> results, int64_t place, RequestLine request,
              std::shared_ptr<const serve::Asked> asked, const serve::ServedModel& model)
      : results_(std::move(results)),
        place_(place),
        request_(std::move(request)),
        asked_(std::move(asked)),
        model_(model),
        choices_(asked_->num_answers()) {}

  void part(int64_t index, serve::TextPart part,
            std::optional<serve::FinishReason> reason) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.part.append(std::move(part));
    if (reason.has_value()) choice.reason = *reason;
  }
  void finished(const serve::GenerationUsage& usage) override {
    nlohmann::ordered_json choices = nlohmann::ordered_json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      choices.push_back(serve::choice_json(*asked_, *model_.words, static_cast<int64_t>(i),
                                           choices_[i].part, choices_[i].reason));
    }
    const serve::AnswerHead head = {.id = fmt::format("line-{}", request_.number),
                                    .model = model_.id,
                                    .created = model_.created};
    results_->put(place_,
                  {.line = line_of_response(
                       request_, serve::response_json(*asked_, head, std::move(choices), usage)),
                   .tokens = usage.answer_tokens});
  }
  void failed(const serve::ApiError& error) override {
    constexpr int kUnavailable = 503;  // not this request alone
    if (error.status() == kUnavailable) return results_->fail(error);
    results_->put(place_, {.line = line_of_error(request_, error), .is_error = true});
  }

 private:
  struct Choice {
    serve::TextPart part;
    serve::FinishReason reason = serve::FinishReason::kLength;
  };
  std::shared_ptr<BatchResults> results_;
  int64_t place_;
  RequestLine request_;
  std::shared_ptr<const serve::Asked> asked_;
  const serve::ServedModel& model_;
  std::vector<Choice> choices_;
};

}  // namespace

void BatchResults::put(int64_t place, BatchResult result) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(place, std::move(result));
    ++come_;
  }
  changed_.notify_one();
}

void BatchResults::fail(const serve::ApiError& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.has_value()) failure_ = error;
  }
  changed_.notify_one();
}

BatchResults::News BatchResults::wait(std::chrono::milliseconds longest, int64_t seen) {
  std::unique_lock lock(mutex_);
  const auto is_next = [&] { return !waiting_.empty() && waiting_.begin()->first == taken_; };
  changed_.wait_for(lock, longest,
                    [&] { return is_next() || come_ > seen || failure_.has_value(); });
  News news;
  if (is_next()) {
    news.next = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    ++taken_;
  } else {
    news.failure = failure_;
  }
  return news;
}

int64_t BatchResults::come() const {
  const std::lock_guard lock(mutex_);
  return come_;
}

std::shared_ptr<serve::AnswerSink> whole_answer(std::shared_ptr<BatchResults> results,
                                                int64_t place, RequestLine request,
                                                std::shared_ptr<const serve::Asked> asked,
                                                const serve::ServedModel& model) {
  return std::make_shared<WholeAnswer>(std::move(results), place, std::move(request),
                                       std::move(asked), model);
}

}  // namespace tessera
