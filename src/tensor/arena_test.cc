#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

namespace tessera {
namespace {

TEST(HostArena, IsZeroAndAligned) {
  const HostArena arena("weights", (int64_t{3} << 20) + 5);
  EXPECT_EQ(arena.size_bytes(), (int64_t{3} << 20) + 5);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % 4096, 0U);
  for (int64_t i = 0; i < arena.size_bytes(); ++i) ASSERT_EQ(arena.data()[i], std::byte{0});
  std::memset(arena.data(), 1, static_cast<size_t>(arena.size_bytes()));
}

TEST(HostArena, MayBeEmpty) {
  const HostArena arena("nothing", 0), unnamed;
  EXPECT_EQ(arena.size_bytes(), 0);
  EXPECT_EQ(arena.data(), nullptr);
  EXPECT_EQ(unnamed.data(), nullptr);
}

TEST(HostArena, MovesItsMemory) {
  HostArena first("a", 100);
  std::byte* data = first.data();
  data[7] = std::byte{9};
  HostArena second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second.name(), "a");
  HostArena third("b", 5000);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size_bytes(), 100);
  EXPECT_EQ(third.data()[7], std::byte{9});
}

TEST(HostArena, BasesDoNotMeetModuloLargePowersOfTwo) {
  std::vector<HostArena> arenas;
  for (int i = 0; i < 8; ++i) arenas.emplace_back("rank", (int64_t{1} << 20) * (i + 1));
  for (size_t i = 0; i < arenas.size(); ++i) {
    // An odd number of 4 KiB pages into a huge page.
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arenas[i].data()) / 4096 % 2, 1U);
    for (size_t j = 0; j < i; ++j) {
      const auto a = reinterpret_cast<uintptr_t>(arenas[i].data());
      const auto b = reinterpret_cast<uintptr_t>(arenas[j].data());
      EXPECT_NE(a % (uintptr_t{1} << 28), b % (uintptr_t{1} << 28));
    }
  }
}

TEST(HostArena, RefusalNamesTheArenaAndTheSize) {
  for (const int64_t size : {int64_t{1} << 60, INT64_MAX}) {
    try {
      const HostArena arena("activations", size);
      FAIL() << "no refusal";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("activations"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(std::to_string(size)), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tessera
