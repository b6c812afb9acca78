// Random requests: none crashes, takes too long or too much memory, prints NaN or an infinity, all
// end with a documented exit code, and a second time they give the same bytes. A commit tries a
// 32nd of ten thousand, ./test --all all of them.
#include <gtest/gtest.h>

#include <map>

#include "base/testing/share.h"
#include "requests/answer.h"

namespace tessera {
namespace {

using testing::Answer;
using testing::Dice;
using testing::Request;

constexpr int kParts = 4;  // so that they run beside each other
constexpr int kRequestsOfAPart = 2500;

class RobustnessTest : public ::testing::TestWithParam<int> {};

TEST_P(RobustnessTest, RequestsAreAnsweredOrRefusedTheSameTwice) {
  const testing::Workplace workplace;
  std::map<int, int> codes;
  const testing::Share share = testing::share_of(kRequestsOfAPart, 32);
  const int64_t count = share.size();
  for (int64_t i = share.begin; i < share.end; ++i) {
    Dice dice(static_cast<uint64_t>(GetParam() * kRequestsOfAPart + i));
    const Request request = testing::random_request(dice);
    const Answer first = workplace.ask(request);
    ASSERT_EQ(testing::complaint(request, first), "") << testing::text_of(request) << first.err;
    const Answer second = workplace.ask(request);
    ASSERT_EQ(testing::bytes_of(first), testing::bytes_of(second)) << testing::text_of(request);
    ++codes[first.code];
  }
  EXPECT_GE(codes[0], count / 8) << "many requests should make sense";
  EXPECT_GE(codes[2], count / 6) << "and many should not";
  EXPECT_GE(codes[3], count / 250) << "and some should not fit";
}
INSTANTIATE_TEST_SUITE_P(Part, RobustnessTest, ::testing::Range(0, kParts));

}  // namespace
}  // namespace tessera
