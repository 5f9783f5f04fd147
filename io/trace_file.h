// A tracer's spans and counters as a file in Chrome's trace format, which ui.perfetto.dev and
// chrome://tracing open.
//
//   auto sink = gzip_sink(opener.open_sink("trace.json.gz"));
//   write_trace(tracer, {.process = 1, .processes = 4}, *sink);
//
// The file is one JSON object with one event in each line, so that files as large as these are read
// line by line: the first line is all before the events, and the last one closes the object. Times
// are microseconds since the tracer was made; the first line says when that was, by the wall clock,
// and when the processes of the run met.
//
// Threads: functions, callable from any; nothing else may be recorded.
#pragma once

#include <string>

#include "io/base/trace.h"
#include "io/byte_sink.h"

namespace millrace::io {

/// Of which process of a run a trace is.
struct TraceProcess {
  int process = 0;
  int processes = 1;
};

/// Takes what the tracer has, writes it to `sink` and finishes that. Throws: as the sink. Returns
/// the number of events that were left out (TraceOptions::max_events).
std::size_t write_trace(Tracer& tracer, const TraceProcess& process, ByteSink& sink);

}  // namespace millrace::io
