#include "base/sequence_rows.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera {
namespace {

TEST(SequenceRows, AWholeSequenceIsInOrder) {
  const SequenceRows rows{.seq_len = 5};
  EXPECT_EQ(rows.length(), 5);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(rows.position(i), i);
  EXPECT_EQ(rows.first_row(0, 3, 4), 15);
}

TEST(SequenceRows, PartsTakeOneChunkFromEachEnd) {
  const SequenceRows rows{.seq_len = 12, .parts = 3, .part = 1};
  EXPECT_EQ(rows.length(), 4);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < rows.length(); ++i) positions.push_back(rows.position(i));
  EXPECT_EQ(positions, (std::vector<int64_t>{2, 3, 8, 9}));
  EXPECT_EQ(rows.first_row(1, 2, 5), 2 * 4 + 2);
}

TEST(SequenceRows, PartsPartitionTheSequenceAndSeeEquallyMuch) {
  for (const int64_t parts : {1, 2, 3, 4}) {
    const int64_t seq_len = parts * 6;
    std::multiset<int64_t> seen;
    std::set<int64_t> work;  // scores of a part's queries in causal attention
    for (int64_t part = 0; part < parts; ++part) {
      const SequenceRows rows{seq_len, parts, part};
      int64_t scores = 0;
      for (int64_t i = 0; i < rows.length(); ++i) {
        seen.insert(rows.position(i));
        scores += rows.position(i) + 1;
      }
      work.insert(scores);
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(seq_len));
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), static_cast<size_t>(seq_len));
    EXPECT_EQ(work.size(), 1U) << parts << " parts";
  }
}

// What an all-gather of the parts' rows leaves, read in order of position.
TEST(SequenceRows, AllPartsFindTheRowsOfEachPart) {
  constexpr int64_t kParts = 3, kLength = 12, kSequences = 2;
  const SequenceRows all{kLength, kParts, SequenceRows::kAllParts};
  EXPECT_EQ(all.length(), kLength);
  for (int64_t sequence = 0; sequence < kSequences; ++sequence) {
    for (int64_t part = 0; part < kParts; ++part) {
      const SequenceRows own{kLength, kParts, part};
      for (int64_t c = 0; c < own.num_chunks(); ++c) {
        const int64_t chunk = own.first_position(c) / own.chunk_len();
        EXPECT_EQ(all.first_position(chunk), own.first_position(c));
        EXPECT_EQ(all.first_row(chunk, sequence, kSequences),
                  part * kSequences * own.length() + own.first_row(c, sequence, kSequences));
      }
    }
  }
}

TEST(SequenceRows, CountsWhatLiesBeforeAPosition) {
  const SequenceRows rows{.seq_len = 8, .parts = 2, .part = 0};  // 0 1 6 7
  std::vector<int64_t> counts;
  for (int64_t p = 0; p <= 8; ++p) counts.push_back(rows.count_before(p));
  EXPECT_EQ(counts, (std::vector<int64_t>{0, 1, 2, 2, 2, 2, 2, 3, 4}));
  EXPECT_EQ(rows.count_before(-3), 0);
}

}  // namespace
}  // namespace tessera
