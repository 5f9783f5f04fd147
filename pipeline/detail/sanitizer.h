// Annotations of TBB for ThreadSanitizer, because the library itself is not instrumented.
//
// A task is handed over inside libtbb, which ThreadSanitizer does not see, so that everything after
// it would be reported as a race, TBB's own inlined code above all. So TBB's code is ignored
// (TbbCode) except for the bodies of our nodes (NodeBody), and each node has a Handover that
// declares what its messages order. In other builds all of this is empty.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define MILLRACE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MILLRACE_TSAN 1
#endif
#endif

#ifdef MILLRACE_TSAN
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace millrace::pipeline::detail {

#ifdef MILLRACE_TSAN
/// How many times over this thread's accesses are ignored.
inline thread_local int times_left_out = 0;
inline void leave_out() {
  ++times_left_out;
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
inline void take_in() {
  --times_left_out;
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}
/// Whether this thread is in TBB's code.
inline bool is_left_out() { return times_left_out > 0; }
/// Everything before send() happens before everything after receive().
class Handover {
 public:
  void send() { __tsan_release(this); }
  void receive() { __tsan_acquire(this); }
};
#else
inline void leave_out() {}
inline void take_in() {}
inline bool is_left_out() { return false; }
class Handover {
 public:
  void send() {}
  void receive() {}
};
#endif

/// While one exists, this thread is in TBB's code.
class TbbCode {
 public:
  TbbCode() { leave_out(); }
  ~TbbCode() { take_in(); }
  TbbCode(const TbbCode&) = delete;
  TbbCode& operator=(const TbbCode&) = delete;
};

/// While one exists, this thread is back in a node's body.
class NodeBody {
 public:
  NodeBody() : was_left_out_(is_left_out()) {
    if (was_left_out_) take_in();
  }
  ~NodeBody() {
    if (was_left_out_) leave_out();
  }
  NodeBody(const NodeBody&) = delete;
  NodeBody& operator=(const NodeBody&) = delete;

 private:
  bool was_left_out_;
};

}  // namespace millrace::pipeline::detail
