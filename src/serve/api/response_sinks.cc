#include "serve/api/response_sinks.h"

#include <atomic>
#include <utility>

namespace tessera::serve {
namespace {

// One response for all choices.
class WholeResponse final : public http::LaterResponse {
 public:
  std::shared_ptr<OpenResponse> open;
  std::weak_ptr<Answer> answer;

 protected:
  void on_gone() override {
    if (const auto at = answer.lock()) at->cancel();
  }
};

class WholeSink final : public AnswerSink {
 public:
  WholeSink(ResponseContext context, std::shared_ptr<WholeResponse> response)
      : context_(std::move(context)),
        response_(std::move(response)),
        parts_(context_.asked->num_answers()),
        reasons_(context_.asked->num_answers(), FinishReason::kLength) {}

  void part(int64_t index, TextPart part, std::optional<FinishReason> reason) override {
    const auto at = static_cast<size_t>(index);
    parts_[at].append(std::move(part));
    if (reason.has_value()) reasons_[at] = *reason;
  }
  void finished(const GenerationUsage& usage) override {
    nlohmann::ordered_json choices = nlohmann::ordered_json::array();
    for (size_t i = 0; i < parts_.size(); ++i) {
      choices.push_back(choice_json(*context_.asked, *context_.words, static_cast<int64_t>(i),
                                    parts_[i], reasons_[i]));
    }
    http::Response response = http::Response::json(
        response_json(*context_.asked, context_.head, std::move(choices), usage));
    response.fields.emplace_back("X-Request-Id", context_.head.id);
    give(std::move(response));
  }
  void failed(const ApiError& error) override { give(error.response()); }

 private:
  void give(http::Response response) {
    context_.metrics->response(response.status);
    response_->give(std::move(response));
  }

  ResponseContext context_;
  std::shared_ptr<WholeResponse> response_;
  std::vector<TextPart> parts_;
  std::vector<FinishReason> reasons_;
};

class StreamedEvents final : public http::EventQueue {
 public:
  StreamedEvents() : http::EventQueue(kMostUntakenBytes) {}
  void wake_with(std::function<void()> wake) override {
    const bool left = !wake;
    if (left) gone = true;
    http::EventQueue::wake_with(std::move(wake));
    const auto at = answer.lock();
    if (left && at != nullptr) at->cancel();
  }
  std::weak_ptr<Answer> answer;
  std::atomic<bool> gone{false};
  std::shared_ptr<OpenResponse> open;
};

class StreamSink final : public AnswerSink {
 public:
  StreamSink(ResponseContext context, std::shared_ptr<StreamedEvents> events)
      : context_(std::move(context)),
        events_(std::move(events)),
        begun_(context_.asked->num_answers(), false) {}

  void part(int64_t index, TextPart part, std::optional<FinishReason> reason) override {
    const bool chat = context_.asked->shape == Shape::kChat;
    if (chat && !begun_[static_cast<size_t>(index)]) {
      begun_[static_cast<size_t>(index)] = true;
      push(chunk(index, {}, true, std::nullopt));
    }
    // The last delta of a chat is empty.
    if (!part.empty() && (chat || !reason.has_value())) {
      push(chunk(index, std::exchange(part, {}), false, std::nullopt));
    }
    if (reason.has_value()) push(chunk(index, part, false, reason));
  }
  void finished(const GenerationUsage& usage) override {
    if (context_.asked->include_usage) {
      push(usage_event(*context_.asked, context_.head, usage));
    }
    push(http::format_event("", "", "[DONE]"));
    events_->close();
    context_.metrics->response(200);
  }
  // The status has been sent, so it is an event. Without [DONE] nobody takes it for the whole.
  void failed(const ApiError& error) override {
    push(http::format_event("", "", error.body()));
    events_->close();
    context_.metrics->response(error.status());
  }

 private:
  [[nodiscard]] std::string chunk(int64_t index, const TextPart& part, bool first,
                                  std::optional<FinishReason> reason) const {
    return chunk_event(*context_.asked, context_.head, *context_.words, index, part, first, reason);
  }
  void push(const std::string& event) {
    if (dropped_ || events_->push(event)) return;
    dropped_ = true;
    if (events_->gone) return;
    context_.metrics->dropped_reader();
    if (const auto answer = events_->answer.lock()) answer->cancel();
  }

  ResponseContext context_;
  std::shared_ptr<StreamedEvents> events_;
  std::vector<bool> begun_;
  bool dropped_ = false;
};

}  // namespace

http::Response respond_later(AnswerDesk& desk, ResponseContext context) {
  const auto asked = context.asked;
  http::Response response;
  if (!asked->stream) {
    const auto whole = std::make_shared<WholeResponse>();
    response.later = whole;
    whole->open = std::move(context.open);
    desk.start(asked, [&](const std::weak_ptr<Answer>& answer) {
      whole->answer = answer;
      return std::make_shared<WholeSink>(std::move(context), whole);
    });
    return response;
  }
  response = http::Response::text(200, "text/event-stream", "");
  response.fields.emplace_back("Cache-Control", "no-store");
  response.fields.emplace_back("X-Accel-Buffering", "no");  // proxies pass events on at once
  response.fields.emplace_back("X-Request-Id", context.head.id);
  const auto events = std::make_shared<StreamedEvents>();
  response.events = events;
  events->open = std::move(context.open);
  desk.start(asked, [&](const std::weak_ptr<Answer>& answer) {
    events->answer = answer;
    return std::make_shared<StreamSink>(std::move(context), events);
  });
  return response;
}

}  // namespace tessera::serve
