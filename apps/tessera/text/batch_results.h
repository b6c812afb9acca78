// Answers that have come, until those before them have.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "serve/api/answer.h"
#include "text/request_lines.h"

namespace tessera {

struct BatchResult {
  std::string line;
  bool is_error = false;
  int64_t tokens = 0;
};

// Thread-safe.
class BatchResults {
 public:
  // `place`: counts requests of this run, from 0.
  void put(int64_t place, BatchResult result);
  // No answer will come any more.
  void fail(const serve::ApiError& error);

  struct News {
    std::optional<BatchResult> next;  // in order
    std::optional<serve::ApiError> failure;
  };
  // Waits for the next one, or until more than `seen` have come: any makes room for another
  // request. For as long at most.
  News wait(std::chrono::milliseconds longest, int64_t seen);
  [[nodiscard]] int64_t taken() const { return taken_; }  // by who waits
  // That have come, in whatever order.
  [[nodiscard]] int64_t come() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, BatchResult> waiting_;
  std::optional<serve::ApiError> failure_;
  int64_t come_ = 0;
  int64_t taken_ = 0;
};

// Puts the answers to one request together.
std::shared_ptr<serve::AnswerSink> whole_answer(std::shared_ptr<BatchResults> results,
                                                int64_t place, RequestLine request,
                                                std::shared_ptr<const serve::Asked> asked,
                                                const serve::ServedModel& model);

}  // namespace tessera
