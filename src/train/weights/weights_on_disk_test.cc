// Rectangles of weights out of folders, and rows for ranks that ask in turns.
#include "train/weights/weights_on_disk.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <random>
#include <thread>

#include "base/testing/message_of.h"
#include "base/testing/test_folder.h"
#include "checkpoint/safetensors.h"
#include "compile/step.h"
#include "train/state/bucket_runs.h"
#include "train/verify/model_folder.h"

namespace tessera {
namespace {

std::vector<LogicalTensor> tensors_of(const ParameterLayout& layout) {
  std::vector<LogicalTensor> tensors;
  for (const Bucket& bucket : layout.buckets) {
    for_each_tensor(bucket, [&](const LogicalTensor& tensor) { tensors.push_back(tensor); });
  }
  return tensors;
}

std::string folder_of(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/" + name;
}

ParameterLayout layout_of(const std::string& folder) {
  return build_step(open_model_folder(folder).spec, StepKind::kForward).layout;
}

// Element (row, col) as the file has it.
double stored_value(const SafetensorsFile& file, const LogicalTensor& tensor, int64_t row,
                    int64_t col) {
  const StoredTensor& stored = tensor.stored;
  std::string name = stored.name;
  if (file.find(name) == nullptr) name = name.substr(name.find('.') + 1);
  double value = 0;
  file.read_range(name, stored.offset + row * stored.row_step + col * stored.col_step,
                  std::span(&value, 1));
  return value;
}

class WeightsOnDiskTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WeightsOnDiskTest, RectanglesHaveTheElementsOfTheFile) {
  const std::string folder = folder_of(GetParam());
  const ParameterLayout layout = layout_of(folder);
  const auto weights = open_weights(folder, layout);
  const SafetensorsFile file = SafetensorsFile::open(folder + "/model.safetensors");
  std::mt19937_64 random(3);
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
  };
  for (const LogicalTensor& tensor : tensors_of(layout)) {
    WantedRows wanted{.tensor = &tensor};
    wanted.first_row = below(tensor.rows());
    wanted.num_rows = 1 + below(tensor.rows() - wanted.first_row);
    wanted.first_col = below(tensor.cols());
    wanted.num_cols = 1 + below(tensor.cols() - wanted.first_col);
    wanted.stride = wanted.num_cols + below(3);
    const StoredType type = weights->type_of(tensor);
    const int64_t element = size_bits(type) / 8;
    std::vector<std::byte> bytes(static_cast<size_t>(wanted.num_rows * wanted.stride * element),
                                 std::byte{0x7e});
    wanted.to = bytes.data();
    const ReadFigures figures = weights->read({&wanted, 1});
    EXPECT_EQ(figures.needed_bytes, wanted.num_rows * wanted.num_cols * element);
    EXPECT_EQ(figures.read_bytes, figures.needed_bytes + figures.gap_bytes);
    for (int trial = 0; trial < 20; ++trial) {
      const int64_t row = below(wanted.num_rows), col = below(wanted.num_cols);
      double value = 0;
      decode(type,
             std::span<const std::byte>(bytes).subspan(
                 static_cast<size_t>((row * wanted.stride + col) * element),
                 static_cast<size_t>(element)),
             std::span(&value, 1));
      EXPECT_EQ(value, stored_value(file, tensor, wanted.first_row + row, wanted.first_col + col))
          << tensor.name << " " << row << ", " << col;
    }
    if (wanted.stride > wanted.num_cols) {
      EXPECT_EQ(bytes.back(), std::byte{0x7e}) << "not wanted";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, WeightsOnDiskTest,
                         ::testing::Values("gpt2", "llama-gqa", "mixtral", "qwen3"),
                         [](const auto& folder) {
                           std::string name = folder.param;
                           std::erase(name, '-');
                           return name;
                         });

// Counts what is read of others.
class CountedWeights final : public WeightsOnDisk {
 public:
  explicit CountedWeights(std::shared_ptr<const WeightsOnDisk> of) : of_(std::move(of)) {}
  [[nodiscard]] StoredType type_of(const LogicalTensor& tensor) const override {
    return of_->type_of(tensor);
  }
  ReadFigures read(std::span<const WantedRows> wanted) const override {
    const ReadFigures figures = of_->read(wanted);
    bytes += figures.needed_bytes;
    return figures;
  }
  mutable std::atomic<int64_t> bytes{0};

 private:
  std::shared_ptr<const WeightsOnDisk> of_;
};

// Stages of a pipeline that are threads go through different tensors at the same time.
TEST(SourceOfTest, RowsThatThreadsAskForInTurnsAreReadOnce) {
  const std::string folder = folder_of("llama-gqa");
  const ParameterLayout layout = layout_of(folder);
  const auto counted = std::make_shared<CountedWeights>(open_weights(folder, layout));
  const TensorSource source = source_of(counted);
  const std::vector<LogicalTensor> tensors = tensors_of(layout);
  constexpr int kThreads = 2;
  std::barrier turn(kThreads);
  std::atomic<int64_t> asked{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const LogicalTensor& mine = tensors[static_cast<size_t>(t)];
      std::vector<double> row(static_cast<size_t>(mine.cols()));
      for (int64_t r = 0; r < tensors[0].rows(); ++r) {
        turn.arrive_and_wait();
        if (r >= mine.rows()) continue;
        source(mine, r * mine.cols(), row);
        asked += mine.cols() * size_bits(counted->type_of(mine)) / 8;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counted->bytes, asked);
}

TEST(SourceOfTest, ATypeThatNobodyCanReadIsNamed) {
  const testing::TestFolder scratch;
  const std::string folder = scratch.path("model");
  std::filesystem::copy(folder_of("llama-gqa"), folder);
  const SafetensorsFile file = SafetensorsFile::open(folder_of("llama-gqa") + "/model.safetensors");
  std::vector<TensorToWrite> tensors;
  const std::vector<std::byte> zeros(1 << 20);
  for (const TensorInfo& info : file.tensors()) {
    const auto bytes = static_cast<size_t>(*tensor_bytes(StoredType::kF8E4M3, info.shape));
    tensors.push_back({info.name, StoredType::kF8E4M3, info.shape, std::span(zeros).first(bytes)});
  }
  write_safetensors(folder + "/model.safetensors", tensors, {});
  const ParameterLayout layout = layout_of(folder);
  const TensorSource source = hf_weights(folder, layout);
  std::vector<double> one(1);
  const std::string said =
      testing::message_of<Error>([&] { source(tensors_of(layout).front(), 0, one); });
  EXPECT_NE(said.find("has dtype F8_E4M3, which cannot be read"), std::string::npos) << said;
}

}  // namespace
}  // namespace tessera
