// Ten thousand random requests: none crashes, none prints NaN or an infinity, all end with a
// documented exit code, and a second time they give the same bytes.
#include <gtest/gtest.h>

#include <map>

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
  for (int i = 0; i < kRequestsOfAPart; ++i) {
    Dice dice(static_cast<uint64_t>(GetParam() * kRequestsOfAPart + i));
    const Request request = testing::random_request(dice);
    const Answer first = workplace.ask(request);
    ASSERT_EQ(testing::complaint(request, first), "") << testing::text_of(request) << first.err;
    const Answer second = workplace.ask(request);
    ASSERT_EQ(testing::bytes_of(first), testing::bytes_of(second)) << testing::text_of(request);
    ++codes[first.code];
  }
  EXPECT_GE(codes[0], kRequestsOfAPart / 4) << "many requests should make sense";
  EXPECT_GE(codes[2], kRequestsOfAPart / 4) << "and many should not";
  EXPECT_GE(codes[3], 10) << "and some should not fit";
}
INSTANTIATE_TEST_SUITE_P(Part, RobustnessTest, ::testing::Range(0, kParts));

}  // namespace
}  // namespace tessera
