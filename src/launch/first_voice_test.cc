#include "launch/first_voice.h"

#include <gtest/gtest.h>

#include <optional>

namespace tessera {
namespace {

LaunchContext rank_of(int rank, int port = 29500) {
  LaunchContext context;
  context.launcher = Launcher::kTorchrun;
  context.rank = rank;
  context.size = 4;
  context.master_address = "first-voice-test";
  context.master_port = port;
  return context;
}

TEST(FirstVoiceTest, PeersDoNotRepeatWhatIsBeingSaid) {
  std::optional<FirstVoice> one(std::in_place, rank_of(1), "no such file");
  EXPECT_TRUE(one->speaks());
  EXPECT_FALSE(FirstVoice(rank_of(2), "no such file").speaks());
  one.reset();
  EXPECT_TRUE(FirstVoice(rank_of(2), "no such file").speaks());
}

TEST(FirstVoiceTest, AMistakeOfOneRankAloneIsHeard) {
  const FirstVoice zero(rank_of(0), "no such file");
  EXPECT_TRUE(FirstVoice(rank_of(1), "another mistake").speaks());
  EXPECT_TRUE(FirstVoice(rank_of(1, 29501), "no such file").speaks()) << "another job";
}

}  // namespace
}  // namespace tessera
