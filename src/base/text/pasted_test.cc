#include "base/text/pasted.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(PastedTest, FindsWhatAKeyboardDoesNotHave) {
  EXPECT_FALSE(find_pasted("--model llama-3-8b \"x\" 'y'").has_value());
  EXPECT_FALSE(find_pasted("größe naïve 模型 \xff").has_value()) << "letters are letters";
  const std::optional<PastedCharacter> dash = find_pasted("a —model");
  ASSERT_TRUE(dash.has_value());
  EXPECT_EQ(dash->kind, PastedKind::kDash);
  EXPECT_EQ(dash->at, 2U);
  EXPECT_EQ(describe(*dash), "a long dash (U+2014)");
  EXPECT_EQ(find_pasted("“x”")->kind, PastedKind::kQuote);
  EXPECT_EQ(find_pasted("8\u00a0k")->kind, PastedKind::kSpace);
  EXPECT_EQ(find_pasted("8\u200bk")->kind, PastedKind::kNothing);
}

TEST(PastedTest, SaysHowItIsTyped) {
  EXPECT_EQ(typed_plainly("“llama-3-8b” and ‘x’"), "\"llama-3-8b\" and 'x'");
  EXPECT_EQ(typed_plainly("–-tp\u00a08\u200b"), "--tp 8");
  EXPECT_EQ(typed_plainly("plain"), "plain");
}

}  // namespace
}  // namespace tessera
