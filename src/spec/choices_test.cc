#include "spec/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>
#include <variant>

#include "base/error.h"
#include "spec/keys.h"

namespace tessera {
namespace {

// The names that a key may have are those of the enum that it is read into.
struct SameNames {
  const Key& key;
  template <typename T>
  bool operator()(const T&) const {
    if constexpr (std::is_pointer_v<T>) {
      using E = std::remove_pointer_t<T>;
      if constexpr (ChoiceEnum<E>) return std::ranges::equal(key.choices, kNamesOf<E>);
      if constexpr (std::is_same_v<E, DType>) return !key.choices.empty();
    }
    if constexpr (std::is_same_v<T, TrainType>) return !key.choices.empty();
    return key.choices.empty();
  }
};

TEST(ChoicesTest, OfEveryKeyAreTheNamesOfItsType) {
  RunSpec spec;
  int enums = 0;
  for (const Key& key : run_keys()) {
    EXPECT_TRUE(std::visit(SameNames{key}, key.field(spec))) << key.section << "." << key.name;
    if (!key.choices.empty()) ++enums;
  }
  EXPECT_GE(enums, 12);
}

template <typename E>
class ChoiceEnumTest : public ::testing::Test {};
using AllChoices =
    ::testing::Types<ModelFamily, NormKind, MlpKind, PositionKind, AttentionBias, RopeScaling,
                     GradReduce, ContextKind, Recompute, PipelineKind, TrainDevice, CudaGraph>;
TYPED_TEST_SUITE(ChoiceEnumTest, AllChoices);

TYPED_TEST(ChoiceEnumTest, NamesAndValuesAreOneToOne) {
  for (size_t i = 0; i < kNamesOf<TypeParam>.size(); ++i) {
    const auto value = static_cast<TypeParam>(i);
    EXPECT_EQ(choice_named<TypeParam>(name_of(value)), value);
  }
  EXPECT_EQ(choice_named<TypeParam>("nothing of the kind"), std::nullopt);
  EXPECT_EQ(choice_named<TypeParam>(""), std::nullopt);
}

TEST(PipelineChoiceTest, IsAKindOrAFile) {
  const PipelineChoice kind = PipelineChoice::parse("zb-v");
  EXPECT_FALSE(kind.is_file());
  EXPECT_EQ(kind, PipelineKind::kZbV);
  EXPECT_NE(kind, PipelineKind::k1F1B);
  EXPECT_EQ(kind.text(), "zb-v");
  const PipelineChoice file = PipelineChoice::parse("1f1b.csv");
  EXPECT_TRUE(file.is_file());
  EXPECT_EQ(file.kind(), std::nullopt);
  EXPECT_EQ(file.text(), "1f1b.csv");
  for (const std::string_view name : kNamesOf<PipelineKind>) {
    EXPECT_NE(file, *choice_named<PipelineKind>(name)) << name;
  }
  EXPECT_NE(file, PipelineChoice::parse("other.csv"));
  EXPECT_THROW((void)PipelineChoice::parse(""), ConfigError);
}

}  // namespace
}  // namespace tessera
