// What the engine's thread does, round by round: hears what came, plans and starts frames until the
// ranks are full, tells listeners what happened, and waits for the oldest frame.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "serve/batch/scheduler.h"
#include "serve/engine/active_request.h"
#include "serve/engine/deliveries.h"
#include "serve/engine/door.h"
#include "serve/frame.h"

namespace tessera::serve {

class EngineLoop {
 public:
  // Both must outlive it.
  EngineLoop(FrameRunner& runner, EngineDoor& door, const BatchOptions& batch);

  // Until the door closes or the runner throws. Every request has ended then.
  void run();

 private:
  struct UnderWay {
    uint64_t number = 0;
    std::vector<RowOwner> owners;
  };

  void work();
  void hear(EngineNews news);
  void expire();
  void start_frames();
  bool plan();
  [[nodiscard]] std::vector<bool> fill_rows();
  void allow_rows(const UnderWay& frame, const std::vector<bool>& has_grammar);
  void finish_oldest();
  void take_row(const RowOwner& owner, SampledToken token);
  void take_answer(ActiveRequest& request, int choice, SampledToken token);
  void tell_prompt(ActiveRequest& request);
  void show();
  void deliver();

  [[nodiscard]] ActiveRequest* find(GenerationId id);
  // These may end the request, which is gone then.
  void end_answer(ActiveRequest& request, int choice, FinishReason reason, const std::string& why);
  void end_request(ActiveRequest& request, FinishReason reason, const std::string& why);
  void end_all(EngineNews news, const std::string& why);
  void fail_request(ActiveRequest& request, const std::string& why);

  FrameRunner& runner_;
  EngineDoor& door_;
  const ServeShape shape_;
  Scheduler scheduler_;
  std::unordered_map<GenerationId, std::unique_ptr<ActiveRequest>> requests_;
  Deliveries deliveries_;
  PlannedFrame planned_;
  std::deque<UnderWay> under_way_;
  std::shared_ptr<const Sampling> greedy_;  // of rows that nobody waits for any longer
  GeneratorStats totals_;
  bool is_over_ = false;
};

}  // namespace tessera::serve
