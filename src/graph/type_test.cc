#include "graph/type.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

TEST(TensorType, LocalShapeDividesOnlySplitDimensions) {
  const Mesh mesh({1, 2, 3, 1, 4});
  TensorType type{DType::kBF16, {12, 8}, {}};
  EXPECT_EQ(local_shape(type, mesh), (Shape{12, 8}));
  type = type.with(Axis::kDp, split(0)).with(Axis::kFsdp, split(0));
  EXPECT_EQ(local_shape(type, mesh), (Shape{2, 8}));
  type = type.with(Axis::kTp, split(1));
  EXPECT_EQ(local_shape(type, mesh), (Shape{2, 2}));
  type = type.with(Axis::kFsdp, partial()).with(Axis::kTp, replicate());
  EXPECT_EQ(local_shape(type, mesh), (Shape{6, 8}));
}

TEST(TensorType, ASplitMustDivide) {
  const Mesh mesh({1, 1, 1, 1, 3});
  const TensorType type = TensorType{DType::kF32, {4, 3}, {}}.with(Axis::kTp, split(0));
  try {
    local_shape(type, mesh);
    FAIL() << "accepted 4 rows over 3 ranks";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("tp = 3"), std::string::npos) << e.what();
  }
  EXPECT_THROW(local_shape(type.with(Axis::kTp, split(2)), mesh), InternalError);
}

TEST(TensorType, TextLeavesInvariantAxesOut) {
  const TensorType type = TensorType{DType::kF32, {512, 256}, {}}
                              .with(Axis::kDp, split(0))
                              .with(Axis::kTp, replicate());
  EXPECT_EQ(to_string(type), "f32 512x256 {dp:S(0) tp:R}");
  EXPECT_EQ(to_string(TensorType{DType::kI32, {7}, {}}), "i32 7 {}");
}

TEST(TensorType, CountsThatOverflowAreRefused) {
  EXPECT_EQ(numel({3, 0, 5}), 0);
  EXPECT_EQ(numel({}), 1);
  EXPECT_THROW(numel({int64_t{1} << 40, int64_t{1} << 40}), InternalError);
}

}  // namespace
}  // namespace tessera
