// Exceptions for wasm32-wasi, whose packaged libc++abi has none: what the compiler calls to throw,
// catch and rethrow (the Itanium C++ ABI, on instructions of WebAssembly). One thread; no exception
// of another language; no exception specifications, which C++20 has not.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>

namespace __cxxabiv1 {

// The virtual functions of every std::type_info of libc++abi, in its order.
class __shim_type_info : public std::type_info {
 public:
  virtual ~__shim_type_info();
  virtual void noop1() const;
  virtual void noop2() const;
  virtual bool can_catch(const __shim_type_info* thrown, void*& adjusted) const = 0;
};

}  // namespace __cxxabiv1

namespace {

using TypeInfo = __cxxabiv1::__shim_type_info;
using Destroy = void* (*)(void*);  // a destructor gives `this` on this target

// Lies before the thrown object.
struct alignas(16) Thrown {
  const std::type_info* type;
  Destroy destroy;
  void* adjusted;         // the object as the type that catches it
  Thrown* caught_before;  // the next of the handlers' stack
  int handlers;           // that are running; negative: and it was rethrown
  int references;         // in flight or caught, and every exception_ptr

  void* object() { return this + 1; }
};

Thrown* innermost = nullptr;
unsigned in_flight = 0;

Thrown* thrown_of(void* object) { return static_cast<Thrown*>(object) - 1; }

void release(Thrown* thrown) {
  if (--thrown->references > 0) return;
  if (thrown->destroy != nullptr) thrown->destroy(thrown->object());
  std::free(thrown);
}

[[noreturn]] void send(Thrown* thrown) {
  ++in_flight;
  __builtin_wasm_throw(0, thrown);
}

// Reads a table of the compiler (LSDA): numbers in LEB128.
class TableReader {
 public:
  explicit TableReader(const uint8_t* at) : at_(at) {}

  const uint8_t* at() const { return at_; }
  uint8_t byte() { return *at_++; }

  uintptr_t number() {
    uintptr_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t next = byte();
      value |= uintptr_t{next & 0x7fu} << shift;
      if (next < 0x80) return value;
    }
  }

  intptr_t signed_number() {
    uintptr_t value = 0;
    int shift = 0;
    uint8_t next = 0x80;
    while (next >= 0x80) {
      next = byte();
      value |= uintptr_t{next & 0x7fu} << shift;
      shift += 7;
    }
    if ((next & 0x40) != 0 && shift < 32) value |= ~uintptr_t{0} << shift;
    return static_cast<intptr_t>(value);
  }

 private:
  const uint8_t* at_;
};

constexpr uint8_t kOmitted = 0xff;

// The parts of one function's table.
struct HandlerTable {
  const uint8_t* types_end = nullptr;  // pointers to type_info, counted backwards from here
  const uint8_t* sites = nullptr;
  const uint8_t* actions = nullptr;

  explicit HandlerTable(const uint8_t* table) {
    TableReader reader(table);
    if (reader.byte() != kOmitted) __builtin_trap();  // a base of landing pads: not on this target
    if (reader.byte() != kOmitted) {
      const uintptr_t offset = reader.number();
      types_end = reader.at() + offset;
    }
    reader.byte();  // how sites are written: always as numbers
    const uintptr_t length = reader.number();
    sites = reader.at();
    actions = sites + length;
  }

  // The first action of landing pad `index`, or null: it only destroys.
  const uint8_t* first_action(uintptr_t index) const {
    TableReader reader(sites);
    while (reader.at() < actions) {
      const uintptr_t site = reader.number(), action = reader.number();
      if (site == index) return action == 0 ? nullptr : actions + (action - 1);
    }
    return nullptr;
  }

  // Null: catch (...).
  const TypeInfo* type(intptr_t index) const {
    const TypeInfo* found = nullptr;
    std::memcpy(&found, types_end - index * static_cast<intptr_t>(sizeof found), sizeof found);
    return found;
  }
};

// The number of the handler that takes it, from 1, or 0: none does.
uintptr_t choose_handler(const HandlerTable& table, const uint8_t* action, Thrown* thrown) {
  while (action != nullptr) {
    TableReader reader(action);
    const intptr_t handler = reader.signed_number();
    if (handler < 0) __builtin_trap();  // an exception specification
    if (handler > 0) {
      const TypeInfo* type = table.type(handler);
      void* adjusted = thrown->object();
      if (type == nullptr ||
          type->can_catch(static_cast<const TypeInfo*>(thrown->type), adjusted)) {
        thrown->adjusted = adjusted;
        return static_cast<uintptr_t>(handler);
      }
    }
    const uint8_t* here = reader.at();
    const intptr_t next = reader.signed_number();
    action = next == 0 ? nullptr : here + next;
  }
  return 0;
}

}  // namespace

extern "C" {

// A landing pad writes its number and the table of its function here, and reads the handler.
struct LandingPadContext {
  uintptr_t index;
  const uint8_t* table;
  uintptr_t selector;
} __wasm_lpad_context;

// Only the name is used: it makes a function one of C++.
int __gxx_wasm_personality_v0() { __builtin_trap(); }

int _Unwind_CallPersonality(void* exception) {
  LandingPadContext& pad = __wasm_lpad_context;
  pad.selector = 0;
  if (pad.table == nullptr) return 0;
  const HandlerTable table(pad.table);
  pad.selector =
      choose_handler(table, table.first_action(pad.index), static_cast<Thrown*>(exception));
  return 0;
}

void* __cxa_allocate_exception(size_t size) noexcept {
  void* memory = std::calloc(1, sizeof(Thrown) + size);
  if (memory == nullptr) __builtin_trap();
  return static_cast<Thrown*>(memory)->object();
}

void __cxa_free_exception(void* object) noexcept { std::free(thrown_of(object)); }

[[noreturn]] void __cxa_throw(void* object, std::type_info* type, Destroy destroy) {
  Thrown* thrown = thrown_of(object);
  thrown->type = type;
  thrown->destroy = destroy;
  thrown->adjusted = object;
  thrown->references = 1;
  send(thrown);
}

void* __cxa_get_exception_ptr(void* exception) noexcept {
  return static_cast<Thrown*>(exception)->adjusted;
}

void* __cxa_begin_catch(void* exception) noexcept {
  auto* thrown = static_cast<Thrown*>(exception);
  thrown->handlers = std::abs(thrown->handlers) + 1;
  if (thrown != innermost) {
    thrown->caught_before = innermost;
    innermost = thrown;
  }
  --in_flight;
  return thrown->adjusted;
}

void __cxa_end_catch() {
  Thrown* thrown = innermost;
  if (thrown == nullptr) return;
  const bool rethrown = thrown->handlers < 0;
  thrown->handlers += rethrown ? 1 : -1;
  if (thrown->handlers != 0) return;
  innermost = thrown->caught_before;
  if (!rethrown) release(thrown);
}

[[noreturn]] void __cxa_rethrow() {
  if (innermost == nullptr) std::terminate();
  innermost->handlers = -innermost->handlers;
  send(innermost);
}

void __cxa_increment_exception_refcount(void* object) noexcept {
  if (object != nullptr) ++thrown_of(object)->references;
}

void __cxa_decrement_exception_refcount(void* object) noexcept {
  if (object != nullptr) release(thrown_of(object));
}

void* __cxa_current_primary_exception() noexcept {
  if (innermost == nullptr) return nullptr;
  ++innermost->references;
  return innermost->object();
}

// Only after the handlers of it have ended: a second object would be needed while one runs.
void __cxa_rethrow_primary_exception(void* object) {
  if (object == nullptr) return;
  Thrown* thrown = thrown_of(object);
  if (thrown->handlers != 0) __builtin_trap();
  ++thrown->references;
  thrown->adjusted = object;
  send(thrown);
}

std::type_info* __cxa_current_exception_type() {
  return innermost == nullptr ? nullptr : const_cast<std::type_info*>(innermost->type);
}

unsigned __cxa_uncaught_exceptions() noexcept { return in_flight; }
bool __cxa_uncaught_exception() noexcept { return in_flight > 0; }

// Debian's C library is built with a stack protector, and has no guard for it.
unsigned long __stack_chk_guard = 0x5eed;
void __stack_chk_fail() { __builtin_trap(); }
}
