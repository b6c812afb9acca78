// Answers on their way to an HTTP client: as one response, or as a stream of events.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "http/message.h"
#include "serve/api/answer.h"
#include "serve/api/answer_json.h"

namespace tessera::serve {

// What a reader of a stream may leave untaken before it is dropped.
inline constexpr size_t kMostUntakenBytes = size_t{1} << 20;

// Responses that are under way: counted from a request until its client has the last byte, or is
// gone.
class OpenResponse {
 public:
  using Count = std::shared_ptr<std::atomic<int>>;
  explicit OpenResponse(Count count) : count_(std::move(count)) { ++*count_; }
  ~OpenResponse() { --*count_; }
  OpenResponse(const OpenResponse&) = delete;
  OpenResponse& operator=(const OpenResponse&) = delete;

 private:
  Count count_;
};

struct ResponseContext {
  std::shared_ptr<const Asked> asked;
  AnswerHead head;
  std::shared_ptr<const Words> words;
  ServeMetrics* metrics = nullptr;  // outlives all
  std::shared_ptr<OpenResponse> open = {};
};

// The response to a request that is being answered: the client's going ends the answer. The answer
// that `desk` starts is given the sink behind it. Throws ApiError where it is refused.
http::Response respond_later(AnswerDesk& desk, ResponseContext context);

}  // namespace tessera::serve
