// check_program and check_collectives find mistakes planted in good programs. (Missing waits are in
// memory_safety_test.cc, next to the search that they are compared with.)
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

std::vector<Program> programs() {
  return compile_ranks(
      build_step(testing::resolved(testing::small_spec("dp=2,tp=2,zero=1,sequence_parallel=true")),
                 StepKind::kTraining));
}

template <typename Check>
std::string message_of(const Check& check) {
  try {
    check();
  } catch (const InternalError& e) {
    return e.what();
  }
  return "";
}

void expect_in(const std::string& part, const std::string& message) {
  EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
}

size_t find(const Program& program, OpKind op, const std::string& name) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].op == op && program.instructions[i].name == name) return i;
  }
  throw std::runtime_error("no " + name);
}

TEST(CheckProgram, AcceptsEveryRank) {
  for (const Program& program : programs()) EXPECT_NO_THROW(check_program(program));
  EXPECT_NO_THROW(check_collectives(programs()));
}

TEST(CheckProgram, FindsAReadBeforeAWrite) {
  Program program = programs()[0];
  const size_t q = find(program, OpKind::kLinear, "layers.0.q");
  const size_t rope = find(program, OpKind::kRope, "layers.0.q.rope");
  std::swap(program.instructions[q].inputs, program.instructions[rope].inputs);
  expect_in("before it is written", message_of([&] { check_program(program); }));
}

TEST(CheckProgram, FindsAWaitThatNobodySignals) {
  Program program = programs()[0];
  for (Instruction& i : program.instructions) {
    if (i.signal < 0) continue;
    i.signal = -1;
    break;
  }
  expect_in("that nobody signals before it", message_of([&] { check_program(program); }));
}

TEST(CheckProgram, FindsAnEventSignalledTwice) {
  Program program = programs()[0];
  int* first = nullptr;
  for (Instruction& i : program.instructions) {
    if (i.signal < 0) continue;
    if (first != nullptr) {
      i.signal = *first;
      break;
    }
    first = &i.signal;
  }
  EXPECT_NE(message_of([&] { check_program(program); }), "");
}

TEST(CheckProgram, FindsAWaitForTheSameStream) {
  Program program = programs()[0];
  const size_t q = find(program, OpKind::kLinear, "layers.0.q");
  program.instructions[q].signal = program.num_events++;
  program.instructions[q + 1].waits.push_back(program.instructions[q].signal);
  ASSERT_EQ(program.instructions[q + 1].stream, StreamKind::kCompute);
  expect_in("waits for its own stream", message_of([&] { check_program(program); }));
}

TEST(CheckProgram, FindsABufferOutsideItsArena) {
  Program program = programs()[0];
  const Instruction& q = program.instructions[find(program, OpKind::kLinear, "layers.0.q")];
  program.buffers[static_cast<size_t>(q.outputs[0])].offset =
      program.arena_bytes[static_cast<size_t>(ArenaKind::kActivations)];
  expect_in("'layers.0.q' outside its arena", message_of([&] { check_program(program); }));
}

TEST(CheckCollectives, FindsTwoSwappedOnOneRank) {
  std::vector<Program> all = programs();
  std::vector<Instruction>& list = all[3].instructions;
  const size_t o = find(all[3], OpKind::kCast, "layers.0.o.sum");
  const size_t down = find(all[3], OpKind::kCast, "layers.0.down.sum");
  std::swap(list[o], list[down]);
  const std::string message = message_of([&] { check_collectives(all); });
  expect_in("group tp", message);
  expect_in("of rank 3 is reduce_scatter", message);
  expect_in("'layers.0.down.sum' but of rank 2", message);
}

TEST(CheckCollectives, FindsOneTooFew) {
  std::vector<Program> all = programs();
  const size_t metrics = find(all[1], OpKind::kCast, "metrics");
  all[1].instructions.erase(all[1].instructions.begin() + static_cast<std::ptrdiff_t>(metrics));
  expect_in("only 3 of 4 ranks use group world", message_of([&] { check_collectives(all); }));
  all = programs();
  const size_t sum = find(all[1], OpKind::kCast, "layers.0.o.sum");
  all[1].instructions.erase(all[1].instructions.begin() + static_cast<std::ptrdiff_t>(sum));
  expect_in("calls but rank 0 makes", message_of([&] { check_collectives(all); }));
}

TEST(CheckCollectives, FindsAnotherSize) {
  std::vector<Program> all = programs();
  Program& program = all[2];
  Instruction& sum = program.instructions[find(program, OpKind::kCast, "layers.0.o.sum")];
  program.buffers[static_cast<size_t>(sum.inputs[0])].shape[0] /= 2;
  expect_in("group tp", message_of([&] { check_collectives(all); }));
}

TEST(Digest, ChangesWithEveryPartOfAnInstruction) {
  const Program good = programs()[0];
  const std::string digest = digest_of(good);
  EXPECT_EQ(digest, digest_of(programs()[0])) << "compiling is not repeatable";
  EXPECT_NE(digest, digest_of(programs()[1]));
  const size_t at = find(good, OpKind::kLinear, "layers.0.q");
  const std::vector<std::function<void(Program&)>> changes = {
      [&](Program& p) {
        p.instructions.erase(p.instructions.begin() + static_cast<std::ptrdiff_t>(at));
      },
      [&](Program& p) { std::swap(p.instructions[at], p.instructions[at + 1]); },
      [&](Program& p) { p.instructions[at].accumulate = true; },
      [&](Program& p) { p.instructions[at].op = OpKind::kLinearDx; },
      [&](Program& p) { std::swap(p.instructions[at].inputs[0], p.instructions[at].inputs[1]); },
      [&](Program& p) { p.instructions[at].args.first_row = 1; },
      [&](Program& p) { p.instructions[at].micro_batch = 7; },
      [&](Program& p) { p.instructions[at].waits.push_back(0); },
      [&](Program& p) {
        p.buffers[static_cast<size_t>(p.instructions[at].outputs[0])].offset += 64;
      },
      [&](Program& p) { p.instructions[at].args.eps = 1; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Program changed = good;
    changes[i](changed);
    EXPECT_NE(digest_of(changed), digest) << "change " << i;
  }
}

}  // namespace
}  // namespace tessera
