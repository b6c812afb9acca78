#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "base/testing/message_of.h"
#include "base/testing/test_folder.h"
#include "checkpoint/testing/safetensors_bytes.h"

namespace tessera {
namespace {

using testing::little_endian;
using testing::message_of;
using testing::read_file;
using testing::safetensors_bytes;
using testing::TestFolder;

class SafetensorsTest : public ::testing::Test {
 protected:
  // Message for a file of these bytes.
  std::string open_error(const std::string& bytes) const {
    const std::string path = folder_.write("x.safetensors", bytes);
    const std::string message = message_of<Error>([&] { SafetensorsFile::open(path); });
    if (message != "no error") {
      EXPECT_NE(message.find("x.safetensors'"), std::string::npos) << message;
    }
    return message;
  }

  // Everything behind the header.
  static std::string stored_data(const std::string& path) {
    const std::string bytes = read_file(path);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof(header));
    return bytes.substr(sizeof(header) + header);
  }

  TestFolder folder_;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

const std::string kEntryA = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

TEST_F(SafetensorsTest, ReadsAFileBuiltByHand) {
  const float values[] = {1.5F, -2.0F, 3.25F};
  std::string data(reinterpret_cast<const char*>(values), sizeof(values));
  data += '\x07';
  const std::string header = R"({"__metadata__":{"format":"pt"},)"
                             R"("z":{"shape":[],"data_offsets":[12,13],"dtype":"U8"},)"
                             R"("a\u00e9":{"dtype":"F32","shape":[3,1],"data_offsets":[0,12]},)"
                             R"("empty":{"dtype":"F64","shape":[0,5],"data_offsets":[12,12]}}   )";
  const SafetensorsFile file =
      SafetensorsFile::open(folder_.write("m.safetensors", safetensors_bytes(header, data)));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a\xc3\xa9", "empty", "z"}));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.at("a\xc3\xa9").shape, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(file.find("b"), nullptr);
  std::vector<double> doubles(3);
  file.read("a\xc3\xa9", doubles);
  EXPECT_EQ(doubles, (std::vector<double>{1.5, -2.0, 3.25}));
  std::vector<int64_t> scalar(1);
  file.read("z", scalar);
  EXPECT_EQ(scalar[0], 7);
  file.read("empty", std::span<double>());
}

TEST_F(SafetensorsTest, AFileWithoutTensorsIsLegal) {
  EXPECT_EQ(open_error(safetensors_bytes("{}", "")), "no error");
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST_F(SafetensorsTest, RoundTripsEveryReadableType) {
  const std::vector<double> f64{0.1, -1e300, std::numeric_limits<double>::denorm_min()};
  const std::vector<float> f32{0.1F, -3e38F, 0.0F};
  const std::vector<uint16_t> f16{0x3c00, 0x0001, 0xfc00};   // 1, smallest subnormal, -inf
  const std::vector<uint16_t> bf16{0x3f80, 0x0001, 0xff80};  // likewise
  const std::vector<int64_t> i64{std::numeric_limits<int64_t>::min(), 0, 42};
  const std::vector<int32_t> i32{-5, 0, 1 << 30};
  const std::vector<int16_t> i16{-5, 0, 32767};
  const std::vector<int8_t> i8{-128, 0, 127};
  const std::vector<uint8_t> u8{0, 128, 255};
  const std::vector<uint8_t> boolean{0, 1, 1};
  const std::vector<TensorToWrite> tensors{{"u8", StoredType::kU8, {3}, bytes_of(u8)},
                                           {"f16", StoredType::kF16, {3}, bytes_of(f16)},
                                           {"f64", StoredType::kF64, {3}, bytes_of(f64)},
                                           {"f32", StoredType::kF32, {1, 3}, bytes_of(f32)},
                                           {"i64", StoredType::kI64, {3}, bytes_of(i64)},
                                           {"bf16", StoredType::kBF16, {3}, bytes_of(bf16)},
                                           {"i32", StoredType::kI32, {3}, bytes_of(i32)},
                                           {"i16", StoredType::kI16, {3}, bytes_of(i16)},
                                           {"i8", StoredType::kI8, {3, 1}, bytes_of(i8)},
                                           {"bool", StoredType::kBool, {3}, bytes_of(boolean)},
                                           {"b_f32", StoredType::kF32, {3}, bytes_of(f32)},
                                           {"none", StoredType::kF64, {0}, {}}};
  const std::string path = folder_.path("all.safetensors");
  const std::map<std::string, std::string> metadata{{"k\"\n", "v\\\xc3\xa9"}, {"step", "7"}};
  write_safetensors(path, tensors, metadata);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()),
                          std::filesystem::directory_iterator()),
            1)
      << "a temporary file stayed";

  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.metadata(), metadata);
  // Wide types first, names in order among equals.
  EXPECT_EQ(file.names(), (std::vector<std::string>{"i64", "f64", "none", "b_f32", "f32", "i32",
                                                    "bf16", "f16", "i16", "i8", "u8", "bool"}));
  const std::string stored = stored_data(path);
  for (const TensorToWrite& tensor : tensors) {
    const TensorInfo& info = file.at(tensor.name);
    const std::string_view bytes =
        std::string_view(stored).substr(static_cast<size_t>(info.begin), tensor.bytes.size());
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(bytes)), tensor.bytes)) << tensor.name;
    EXPECT_EQ(info.end - info.begin, std::ssize(tensor.bytes));
    EXPECT_EQ(info.shape, tensor.shape);
  }
  std::vector<double> out(3);
  file.read("f64", out);
  EXPECT_EQ(out, f64);
  file.read("f16", out);
  EXPECT_EQ(out, (std::vector<double>{1.0, 0x1p-24, -std::numeric_limits<double>::infinity()}));
  file.read("bf16", out);
  EXPECT_EQ(out, (std::vector<double>{1.0, 0x1p-133, -std::numeric_limits<double>::infinity()}));
  file.read("i8", out);
  EXPECT_EQ(out, (std::vector<double>{-128, 0, 127}));
  std::vector<float> floats(3);
  file.read("f32", floats);
  EXPECT_EQ(floats, f32);
  std::vector<int64_t> integers(3);
  file.read("i64", integers);
  EXPECT_EQ(integers, i64);
  file.read("u8", integers);
  EXPECT_EQ(integers, (std::vector<int64_t>{0, 128, 255}));
}

TEST_F(SafetensorsTest, WrittenHeaderIsAlignedAndPaddedWithSpaces) {
  const std::vector<float> values{1, 2};
  const TensorToWrite tensor{"a", StoredType::kF32, {2}, bytes_of(values)};
  const std::string path = folder_.path("a.safetensors");
  write_safetensors(path, {&tensor, 1}, {});
  const std::string bytes = read_file(path);
  const std::string header = "{" + kEntryA + "}";
  ASSERT_EQ(bytes.size(), 64U + 8U);
  EXPECT_EQ(bytes.substr(0, 8), little_endian(56));
  EXPECT_EQ(bytes.substr(8, 56), header + std::string(56 - header.size(), ' '));
  EXPECT_EQ(std::memcmp(bytes.data() + 64, values.data(), 8), 0);
}

TEST_F(SafetensorsTest, ReadsRangesAcrossChunks) {
  std::vector<float> values(700'000);  // more than two chunks
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const TensorToWrite tensor{"a", StoredType::kF32, {7, 100'000}, bytes_of(values)};
  const std::string path = folder_.path("a.safetensors");
  write_safetensors(path, {&tensor, 1}, {});
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::vector<double> all(values.size());
  file.read("a", all);
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<double>(i));
  std::vector<float> some(300'000);
  file.read_range("a", 200'001, some);
  for (size_t i = 0; i < some.size(); ++i) ASSERT_EQ(some[i], values[200'001 + i]);
  file.read_range("a", 700'000, std::span<float>());
  EXPECT_THROW(file.read_range("a", 400'001, some), InternalError);
  EXPECT_THROW(file.read_range("a", -1, some), InternalError);
  EXPECT_THROW(file.read("a", some), InternalError);
}

TEST_F(SafetensorsTest, RefusesTypesItCannotConvert) {
  const std::string header = R"({"u":{"dtype":"U16","shape":[1],"data_offsets":[0,2]},)"
                             R"("h":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}})";
  const SafetensorsFile file =
      SafetensorsFile::open(folder_.write("m", safetensors_bytes(header, "abcd")));
  std::vector<double> value(1);
  EXPECT_HAS(message_of<Error>([&] { file.read("u", value); }),
             "tensor \"u\" of '" + folder_.path("m") + "' has dtype U16, which cannot be read");
  std::vector<int64_t> whole(1);
  EXPECT_HAS(message_of<Error>([&] { file.read("h", whole); }), "F16 but whole numbers are needed");
  EXPECT_HAS(message_of<Error>([&] { file.read("nope", value); }), "has no tensor \"nope\"");
}

TEST_F(SafetensorsTest, RefusesMissingAndSpecialFiles) {
  EXPECT_HAS(message_of<Error>([&] { SafetensorsFile::open(folder_.path("no")); }), "No such file");
  EXPECT_HAS(message_of<Error>([&] { SafetensorsFile::open(folder_.path()); }),
             "not a regular file");
  ASSERT_EQ(mkfifo(folder_.path("pipe").c_str(), 0600), 0);
  EXPECT_HAS(message_of<Error>([&] { SafetensorsFile::open(folder_.path("pipe")); }),
             "not a regular file");
}

TEST_F(SafetensorsTest, RefusesDamagedLengths) {
  EXPECT_HAS(open_error(""), "has only 0 bytes");
  EXPECT_HAS(open_error("1234567"), "has only 7 bytes");
  EXPECT_HAS(open_error(little_endian(100'000'001) + "{}"), "header of 100000001 bytes, more than");
  EXPECT_HAS(open_error(little_endian(~uint64_t{0}) + "{}"), "18446744073709551615");
  EXPECT_HAS(open_error(little_endian(3) + "{}"), "truncated: its header has 3 bytes but only 2");
  EXPECT_HAS(open_error(little_endian(0)), "not a JSON object");
}

TEST_F(SafetensorsTest, RefusesDamagedJson) {
  const auto header_error = [&](const std::string& header) {
    return open_error(safetensors_bytes(header, std::string(8, 'x')));
  };
  EXPECT_EQ(header_error("{" + kEntryA + "}"), "no error");
  EXPECT_HAS(header_error(" {" + kEntryA + "}"), "not a JSON object");
  EXPECT_HAS(header_error("[1]"), "not a JSON object");
  EXPECT_HAS(header_error("{" + kEntryA), "JSON is not valid near byte");
  EXPECT_HAS(header_error("{" + kEntryA + "} x"), "JSON is not valid near byte");
  EXPECT_HAS(header_error("{" + kEntryA + "}" + std::string(1, '\0')), "JSON has a zero byte");
  EXPECT_HAS(header_error("{\"\xff\":{}}"), "JSON is not valid");
  EXPECT_HAS(header_error("{\"a\":" + std::string(100'000, '[')), "has an array where none may be");
  EXPECT_HAS(header_error("{\"a\":" + std::string(100'000, '{')), "JSON is not valid");
  EXPECT_HAS(header_error(R"({"a":{"dtype":{}}})"), "tensor \"a\" has an object where none may be");
  EXPECT_HAS(header_error(R"({"a":{"shape":[[1]]}})"), "has an array where none may be");
  EXPECT_HAS(header_error(R"({"a":null})"), "its header has null where none may be");
  EXPECT_HAS(header_error(R"({"a":{"dtype":3}})"), "tensor \"a\" has a number where none may be");
  EXPECT_HAS(header_error(R"({"a":{"shape":"F32"}})"), "has a string where none may be");
  EXPECT_HAS(header_error(R"({"a":{"dtype":["F32"]}})"), "has an array where none may be");
  EXPECT_HAS(header_error(R"({"a":{"shape":[true]}})"), "has a boolean where none may be");
}

TEST_F(SafetensorsTest, RefusesDamagedTensorEntries) {
  const auto entry_error = [&](const std::string& fields) {
    return open_error(safetensors_bytes("{\"a\":{" + fields + "}}", std::string(8, 'x')));
  };
  EXPECT_HAS(entry_error(R"("dtype":"F99","shape":[2],"data_offsets":[0,8])"),
             "tensor \"a\" has the unknown dtype \"F99\"");
  EXPECT_HAS(entry_error(R"("dtype":"F32","shape":[2])"), "lacks one of dtype, shape");
  EXPECT_HAS(entry_error(R"("dtype":"F32","shape":[2],"data_offsets":[8])"),
             "has 1 data_offsets instead of 2");
  EXPECT_HAS(entry_error(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"),
             "more than 2 data_offsets");
  EXPECT_HAS(entry_error(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
             "begins at 8, after its end at 0");
  EXPECT_HAS(entry_error(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
             "of shape [3] and dtype F32 needs 12 bytes but its data_offsets span 8");
  EXPECT_HAS(entry_error(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
             "has a negative number");
  EXPECT_HAS(entry_error(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "has a fraction");
  EXPECT_HAS(entry_error(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"),
             "impossible size 9223372036854775808");
  EXPECT_HAS(entry_error(R"("dtype":"U8","shape":[4294967296,4294967296,4],"data_offsets":[0,8])"),
             "has an impossible size");
  EXPECT_HAS(entry_error(R"("dtype":"F4","shape":[1],"data_offsets":[0,8])"),
             "has an impossible size");
  EXPECT_HAS(entry_error(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])"),
             "more than 8 dims");
  EXPECT_HAS(entry_error(R"("dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8])"),
             "has the field dtype twice");
  EXPECT_HAS(entry_error(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"stride":[1])"),
             "unknown field \"stride\"");
}

TEST_F(SafetensorsTest, RefusesWrongCoverage) {
  const auto entry = [](const std::string& name, int begin, int end) {
    return "\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(end - begin) +
           "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
  };
  const auto coverage_error = [&](const std::string& a, const std::string& b, size_t data) {
    return open_error(safetensors_bytes("{" + a + "," + b + "}", std::string(data, 'x')));
  };
  EXPECT_EQ(coverage_error(entry("a", 4, 8), entry("b", 0, 4), 8), "no error");
  EXPECT_HAS(coverage_error(entry("a", 3, 8), entry("b", 0, 4), 8),
             "tensor \"a\" begins at byte 3 and overlaps the tensor before it, which ends at 4");
  EXPECT_HAS(coverage_error(entry("a", 0, 4), entry("b", 0, 4), 4), "overlaps");
  EXPECT_HAS(coverage_error(entry("a", 5, 8), entry("b", 0, 4), 8),
             "a hole of 1 bytes before tensor \"a\"");
  EXPECT_HAS(coverage_error(entry("a", 1, 4), entry("b", 4, 8), 8), "a hole of 1 bytes");
  EXPECT_HAS(coverage_error(entry("a", 4, 8), entry("b", 0, 4), 7),
             "truncated: tensor \"a\" ends at byte 8 of the data, but there are only 7");
  EXPECT_HAS(coverage_error(entry("a", 4, 8), entry("b", 0, 4), 10),
             "2 trailing bytes belong to no tensor");
  EXPECT_HAS(coverage_error(entry("a", 0, 4), entry("a", 4, 8), 8), "tensor \"a\" is there twice");
}

TEST_F(SafetensorsTest, RefusesDamagedNamesAndMetadata) {
  const auto header_error = [&](const std::string& header) {
    return open_error(safetensors_bytes(header, std::string(8, 'x')));
  };
  const std::string body = R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(header_error("{\"" + std::string(4096, 'n') + body), "no error");
  EXPECT_HAS(header_error("{\"" + std::string(4097, 'n') + body), "has 4097 bytes, more than 4096");
  EXPECT_HAS(header_error("{\"a\\u0000b" + body), "has a zero byte");
  EXPECT_HAS(header_error(R"({"__metadata__":{"k":1},)" + kEntryA + "}"),
             "__metadata__ has a number where none may be");
  EXPECT_HAS(header_error(R"({"__metadata__":{"k":{}},)" + kEntryA + "}"),
             "__metadata__ has an object where none may be");
  EXPECT_HAS(header_error(R"({"__metadata__":"k",)" + kEntryA + "}"), "has a string where none");
  EXPECT_HAS(header_error(R"({"__metadata__":{"k":"1","k":"2"},)" + kEntryA + "}"),
             "__metadata__ has the key \"k\" twice");
  EXPECT_HAS(header_error(R"({"__metadata__":{},"__metadata__":{},)" + kEntryA + "}"),
             "two __metadata__ objects");
}

// A name from a hostile file must not reach the terminal as control characters.
TEST_F(SafetensorsTest, MessagesEscapeControlCharacters) {
  const std::string message = open_error(safetensors_bytes(
      R"({"\u001b[31m":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "xxxx"));
  EXPECT_HAS(message, "needs 8 bytes");
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

TEST_F(SafetensorsTest, AFileCutAfterOpeningIsAnErrorNotACrash) {
  const std::string path = folder_.write("a", safetensors_bytes("{" + kEntryA + "}", "12345678"));
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::filesystem::resize_file(path, 40);
  std::vector<double> out(2);
  EXPECT_HAS(message_of<Error>([&] { file.read("a", out); }), "it was cut while it was read");
}

// Whatever happens to the bytes, a file opens or throws Error; when it opens, its tensors can be
// read. Run under the address sanitizer this is the memory-safety test of the parser.
TEST_F(SafetensorsTest, RandomDamageNeverCrashes) {
  const std::string header = R"({"__metadata__":{"format":"pt"},)" + kEntryA +
                             R"(,"b":{"dtype":"BF16","shape":[3,2],"data_offsets":[8,20]},)"
                             R"("c":{"dtype":"I8","shape":[4],"data_offsets":[20,24]}})";
  const std::string valid = safetensors_bytes(header, std::string(24, 'd'));
  ASSERT_EQ(open_error(valid), "no error");
  int opened = 0;
  int refused = 0;
  for (uint64_t round = 0; round < 2000; ++round) {
    uint64_t draws = 0;
    const auto below = [&](size_t n) {
      return static_cast<size_t>(uniform_at(1, round, draws++) * static_cast<double>(n));
    };
    std::string bytes = valid;
    for (size_t edits = 1 + below(3); edits > 0 && !bytes.empty(); --edits) {
      const size_t at = below(bytes.size());
      switch (below(8)) {
        case 0:
          bytes.erase(at, 1 + below(8));
          break;
        case 1:
          bytes.insert(at, 1 + below(8), "0123456789{}[],:\"\\"[below(18)]);
          break;
        case 2:
          bytes.resize(at);
          break;
        case 3:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(40)));
          break;
        default:
          bytes[at] = static_cast<char>(below(256));
          break;
      }
    }
    const std::string path = folder_.write("fuzz", bytes);
    try {
      const SafetensorsFile file = SafetensorsFile::open(path);
      ++opened;
      for (const TensorInfo& tensor : file.tensors()) {
        if (!is_readable(tensor.type)) continue;
        std::vector<double> out(static_cast<size_t>(tensor.numel()));
        file.read(tensor.name, out);
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(opened, 20);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tessera
