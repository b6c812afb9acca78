// `tessera data prepare` as a process of its own: whatever the input, it holds less than 512 MiB
// (docs/data.md).
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zstd.h>

#include <fstream>
#include <string>

#include "base/testing/share.h"
#include "support/command.h"

namespace tessera {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kMostBytes = 512 * kMiB;
constexpr size_t kLongestLine = 16 << 20;

// What the largest process held that a test started and that has ended: each test is a process of
// its own.
int64_t peak_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

std::string letters(size_t count) {
  std::string text(count, '\0');
  uint64_t state = 1;
  for (char& c : text) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    c = static_cast<char>('a' + (state >> 59) % 26);
  }
  return text;
}

class PrepareMemoryTest : public testing::CommandTest {
 protected:
  // With more threads than cores, each of which has a piece at hand.
  void expect_bounded(const std::string& input) {
    for (const std::string tokenizer : {"llama3", "unigram"}) {
      SCOPED_TRACE(tokenizer);
      const testing::CommandResult result =
          run("data prepare " + input + " --threads 16 -q --overwrite --end " +
              (tokenizer == "llama3" ? "<|end|>" : "</s>") + " --out set --tokenizer " +
              TESSERA_SOURCE_DIR + "/tests/data/tokenizers/" + tokenizer);
      EXPECT_EQ(result.code, 0) << result.err;
      if (!testing::tries_all()) break;
    }
    const int64_t peak = peak_of_children();
    EXPECT_GT(peak, kMiB) << "nothing was measured";
    EXPECT_LT(peak, kMostBytes) << (peak >> 20) << " MiB";
  }
};

TEST_F(PrepareMemoryTest, TextWithoutBlanks) {
  folder_.write("letters.txt", letters(12 << 20));
  folder_.write("same.txt", std::string(12 << 20, 'x'));
  expect_bounded("letters.txt same.txt");
}

TEST_F(PrepareMemoryTest, LinesOfJsonAsLongAsTheyMayBe) {
  const std::string line = R"({"text": ")" + letters(kLongestLine - 64) + "\"}\n";
  std::ofstream out(folder_.path("long.jsonl"), std::ios::binary);
  for (int i = 0; i < (testing::tries_all() ? 6 : 2); ++i) out << line;
  out.close();
  expect_bounded("long.jsonl");
}

TEST_F(PrepareMemoryTest, FramesWithTheLongestWindow) {
  constexpr int kWindowLog = 27;  // what a reader takes without being asked: 128 MiB
  std::string block;
  while (block.size() < 1 << 20) block += "the cat sat on the mat, and the dog did not.\n";
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, kWindowLog);
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
  std::string packed(ZSTD_CStreamOutSize(), '\0');
  std::ofstream out(folder_.path("text.txt.zst"), std::ios::binary);
  const int blocks = testing::tries_all() ? 192 : 40;
  for (int i = 0; i <= blocks; ++i) {
    ZSTD_inBuffer in{block.data(), i < blocks ? block.size() : 0, 0};
    const ZSTD_EndDirective way = i < blocks ? ZSTD_e_continue : ZSTD_e_end;
    size_t left = 1;
    while (left != 0) {
      ZSTD_outBuffer to{packed.data(), packed.size(), 0};
      const size_t rest = ZSTD_compressStream2(context, &to, &in, way);
      ASSERT_EQ(ZSTD_isError(rest), 0U) << ZSTD_getErrorName(rest);
      out.write(packed.data(), static_cast<std::streamsize>(to.pos));
      left = way == ZSTD_e_end ? rest : in.size - in.pos;
    }
  }
  ZSTD_freeCCtx(context);
  out.close();
  expect_bounded("text.txt.zst");
}

}  // namespace
}  // namespace tessera
