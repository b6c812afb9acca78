// Saves and reads: every element, however it was cut and however it is wanted.
#include <gtest/gtest.h>

#include "base/testing/message_of.h"
#include "base/testing/share.h"
#include "base/testing/test_folder.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store/box_reader.h"
#include "checkpoint/store/saves.h"
#include "checkpoint/store/verify_checkpoint.h"
#include "checkpoint/testing/crash_disk.h"
#include "checkpoint/testing/sample_save.h"

namespace tessera {
namespace {

using namespace testing;  // Dice, roll, the samples

const SaveId kId{"run1", 3, "save1"};

TEST(StoreTest, AnyCutIsReadAsAnyOther) {
  const Share share = share_of(240, 4);
  for (int64_t seed = share.begin; seed < share.end; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(static_cast<uint64_t>(seed));
    const std::vector<TensorHead> tensors = random_tensors(dice, roll(dice, 1, 6), 13);
    const SavePlan plan = plan_save(tensors, random_sharding(dice, tensors, roll(dice, 1, 8)));
    CrashDisk disk;
    save_sample(disk, plan, kId, 7, static_cast<uint64_t>(seed));
    const CheckpointFolder checkpoint = open_checkpoint(disk, step_folder(7));
    EXPECT_NO_THROW(quick_check(disk, checkpoint));
    for (const std::vector<HeldBox>& wanted :
         random_sharding(dice, plan.tensors, roll(dice, 1, 8))) {
      expect_values(disk, checkpoint, plan.tensors, wanted, static_cast<uint64_t>(seed));
    }
  }
}

// The shards are plain safetensors: our reader of those, which knows nothing of stores, has the
// values.
TEST(StoreTest, ShardsAreSafetensors) {
  const TestFolder folder;
  const std::unique_ptr<FileOps> files = real_files(folder.path("ck"), /*make=*/true);
  const SavePlan plan = small_plan();
  save_sample(*files, plan, kId, 12, 5);
  size_t chunks = 0;
  for (int64_t rank = 0; rank < plan.world(); ++rank) {
    const SafetensorsFile file =
        SafetensorsFile::open(folder.path("ck/step-00000012/" + data_file(rank, plan.world())));
    EXPECT_EQ(file.metadata().at("save"), "save1");
    for (const HeldBox& held : plan.writes[static_cast<size_t>(rank)]) {
      const TensorHead& tensor = plan.tensors[held.tensor];
      std::vector<std::byte> bytes(values_of(tensor, held.box, 5).size());
      file.read_bytes(chunk_name(tensor.name, held.box), bytes);
      EXPECT_EQ(bytes, values_of(tensor, held.box, 5));
      ++chunks;
    }
  }
  EXPECT_EQ(chunks, 3U);
  EXPECT_EQ(read_file(folder.path("ck/LATEST")), "step-00000012\n");
  EXPECT_EQ(verify_checkpoint(*files, step_folder(12), /*deep=*/true).code(), ExitCode::kOk);
}

TEST(StoreTest, ReplicasAreWrittenOnceAndByTurns) {
  const std::vector<TensorHead> tensors = {{"a", StoredType::kF32, {100}},
                                           {"b", StoredType::kF32, {100}},
                                           {"c", StoredType::kF32, {100}},
                                           {"d", StoredType::kF32, {100}}};
  std::vector<HeldBox> all;
  for (size_t t = 0; t < 4; ++t) all.push_back({t, whole_box({100})});
  const SavePlan plan = plan_save(tensors, {all, all});
  EXPECT_EQ(bytes_written(plan, 0), 800);
  EXPECT_EQ(bytes_written(plan, 1), 800);
  // One rank has something that it alone holds: the other takes more of the rest.
  std::vector<HeldBox> more = all;
  std::vector<TensorHead> five = tensors;
  five.push_back({"e", StoredType::kF32, {200}});
  more.push_back({4, whole_box({200})});
  const SavePlan uneven = plan_save(five, {all, more});
  EXPECT_EQ(bytes_written(uneven, 0), 1200);
  EXPECT_EQ(bytes_written(uneven, 1), 1200);
}

TEST(StoreTest, RefusesToPlanWhatIsNotHeldOnce) {
  const std::vector<TensorHead> tensors = {{"a", StoredType::kF32, {4}}};
  const auto message = [&](std::vector<std::vector<HeldBox>> held) {
    return message_of<InternalError>([&] { plan_save(tensors, std::move(held)); });
  };
  EXPECT_NE(message({{{0, {{0}, {3}}}}}).find("1 of 4 elements are in no chunk"),
            std::string::npos);
  EXPECT_NE(message({{{0, {{0}, {3}}}}, {{0, {{2}, {2}}}}}).find("overlap"), std::string::npos);
}

// What is read of a large tensor is not much more than what is wanted.
TEST(StoreTest, ReadsOnlyWhatIsNeeded) {
  const std::vector<TensorHead> tensors = {{"m", StoredType::kF32, {1024, 4096}}};  // 16 MiB
  CrashDisk disk;
  save_sample(disk, plan_save(tensors, {{{0, whole_box({1024, 4096})}}}), kId, 1, 1);
  const CheckpointFolder checkpoint = open_checkpoint(disk, step_folder(1));
  const auto figures = [&](const Box& box) {
    return expect_values(disk, checkpoint, tensors, {{0, box}}, 1);
  };
  const int64_t mib = int64_t{1} << 20;
  const ReadFigures rows = figures({{100, 0}, {64, 4096}});  // 1 MiB in one run
  EXPECT_EQ(rows.needed_bytes, mib);
  EXPECT_EQ(rows.spans, 1);
  EXPECT_LE(rows.read_bytes, rows.needed_bytes + 2 * mib);
  const ReadFigures element = figures({{77, 5}, {1, 1}});
  EXPECT_EQ(element.needed_bytes, 4);
  EXPECT_EQ(element.read_bytes, mib);
  // Columns: rows are 16 KiB apart, so all blocks are read, but each once.
  const ReadFigures columns = figures({{0, 8}, {1024, 16}});
  EXPECT_EQ(columns.spans, 1);
  EXPECT_LE(columns.read_bytes, 17 * mib);
  EXPECT_LE(figures(whole_box({1024, 4096})).read_bytes, 17 * mib);
}

TEST(StoreTest, NamesBothValuesOfAnotherModel) {
  CrashDisk disk;
  const SavePlan plan = small_plan();
  save_sample(disk, plan, kId, 1, 1);
  const CheckpointFolder checkpoint = open_checkpoint(disk, step_folder(1));
  std::vector<std::byte> memory(1000);
  const auto message = [&](const WantedBox& wanted) {
    return message_of<ConfigError>([&] { read_boxes(disk, checkpoint, {&wanted, 1}); });
  };
  const Placed whole = placed_dense(whole_box({5, 2}));
  EXPECT_EQ(message({"z", StoredType::kF32, {5, 2}, whole, memory.data()}),
            "checkpoint 'step-00000001' has no tensor \"z\": it is of another model");
  EXPECT_EQ(message({"a", StoredType::kF32, {5, 3}, whole, memory.data()}),
            "tensor \"a\" has shape [5, 2] in checkpoint 'step-00000001', but the model needs "
            "[5, 3]");
  EXPECT_EQ(message({"a", StoredType::kBF16, {5, 2}, whole, memory.data()}),
            "tensor \"a\" has dtype F32 in checkpoint 'step-00000001', but the run needs BF16: use "
            "the same train.dtype");
}

TEST(StoreTest, RefusesAcknowledgementsOfOtherSaves) {
  CrashDisk disk;
  const SavePlan plan = small_plan();
  begin_save(disk, kId);
  const std::vector<ShardAck> acks = write_shards(disk, plan, kId, 1, 1);
  const auto message = [&](std::vector<ShardAck> given) {
    return message_of<Error>(
        [&] { commit_save(disk, plan, kId, 1, given, nlohmann::json::object()); });
  };
  const auto with = [&](const std::function<void(ShardAck&)>& edit) {
    std::vector<ShardAck> edited = acks;
    edit(edited[1]);
    return message(edited);
  };
  EXPECT_EQ(with([](ShardAck& ack) { ack.id.generation = 2; }),
            "rank 1 wrote a shard of run run1, generation 2, save save1, but the save is run run1, "
            "generation 3, save save1");
  EXPECT_NE(with([](ShardAck& ack) { ack.id.run = "other"; }).find("run other"), std::string::npos);
  EXPECT_NE(with([](ShardAck& ack) { ack.id.save = "old"; }).find("save old"), std::string::npos);
  EXPECT_NE(with([](ShardAck& ack) { ack.rank = 0; }).find("twice"), std::string::npos);
  EXPECT_NE(with([](ShardAck& ack) { ack.rank = 2; }).find("of rank 2"), std::string::npos);
  EXPECT_NE(with([](ShardAck& ack) { ++ack.bytes; }).find("bytes, but it should have"),
            std::string::npos);
  EXPECT_EQ(message({acks[0]}), "rank 1 has not written its shard");
  EXPECT_FALSE(newest_good(disk, {}).has_value());
  const ShardAck sent = parse_ack(text_of(acks[1]));
  EXPECT_EQ(sent.id, kId);
  EXPECT_EQ(sent.sums_hash, acks[1].sums_hash);
  EXPECT_EQ(message({acks[0], sent}), "no error");
  EXPECT_TRUE(newest_good(disk, {}).has_value());
}

}  // namespace
}  // namespace tessera
