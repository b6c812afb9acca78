// What a rank of a server computes, whatever process it is in.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/world.h"
#include "serve/frame.h"
#include "serve/ranks/frame_times.h"
#include "serve/ranks/rank_messages.h"

namespace tessera::serve {

// Waits for what the rows of the frame at hand may become; called once, by the rank that samples,
// where the frame says that masks follow.
using AwaitMasks = std::function<FrameMasks()>;

class RankWorker {
 public:
  virtual ~RankWorker() = default;
  // Whether it is the rank whose results have tokens: one is.
  [[nodiscard]] virtual bool samples() const = 0;
  // With its peers: every rank gets the same frames in one order. Throws Error.
  virtual FrameResult run(const Frame& frame, const AwaitMasks& masks) = 0;
  // How long it waited for other stages in the last frame.
  [[nodiscard]] virtual StageWaits waits() const { return {}; }
};

struct RankSetup {
  CommWorld& world;  // outlives the worker, as the task does
  const RankTask& task;
  // "loads its weights": shown to whoever waits, and a sign of life.
  std::function<void(const std::string&)> tell;
};
using MakeRankWorker = std::function<std::unique_ptr<RankWorker>(const RankSetup&)>;

}  // namespace tessera::serve
