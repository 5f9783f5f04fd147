// RunRecord: what a run's folder says about the run: its metrics, as one sequence however often it
// was stopped and resumed, its options, its machine and its data.
//
// Everything in a folder counts as written by strangers. What is missing or damaged is left out and
// noted; only a folder that holds no metrics is refused.
//
// Threads: as a value; read_run() from any.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "io/opener.h"

namespace millrace::tools {

using RecordJson = nlohmann::ordered_json;

/// The number called `name`; nullopt if there is none, or none that can be drawn: it is not finite,
/// or beyond 1e100.
std::optional<double> number_in(const RecordJson& json, const std::string& name);
/// The text called `name`; empty if there is none.
std::string text_in(const RecordJson& json, const std::string& name);

/// The sessions of a run.json, in their order: a list of objects with "started", "command", "host",
/// "processes", "devices", "peak_bytes", "first_epoch", and "data" with the counts and a digest of
/// its sets, as far as they are known.
RecordJson sessions_of(const RecordJson& start);

/// An event of metrics.jsonl, with its place on the run's axis.
struct RunEvent {
  double step = 0;  ///< of the whole run, from 1
  RecordJson values;
};

/// A picture of a gallery, small, or why there is none.
struct DrawnPicture {
  int width = 0;
  int height = 0;
  std::string base64 = {};  ///< of a JPEG file; empty: `missing` says why
  std::string missing = {};
};

struct RunRecord {
  std::string name;                  ///< the folder's own
  std::vector<RunEvent> steps = {};  ///< of rank 0, at every log_steps-th step
  std::vector<RunEvent> epochs = {};
  RecordJson end = {};          ///< null: the run has not ended, or was killed, or has failed
  RecordJson fault = {};        ///< null: the run has not failed, or has gone on since
  RecordJson config = {};       ///< config.json
  RecordJson start = {};        ///< run.json: versions, machine, model, data, sessions
  RecordJson evaluation = {};   ///< evaluation-best.json, or evaluation.json; null: neither
  RecordJson first_batch = {};  ///< first-batch.json
  /// By picture_name(): those that draw_pictures() (tools/report/gallery.h) has looked for.
  std::map<std::string, DrawnPicture> pictures = {};
  /// Of all sessions together: of one that was killed its epochs alone.
  double seconds = 0;
  int sessions = 1;  ///< how often it was begun or gone on with, as far as that can be told
  /// Whether `seconds` lacks something: a session was killed, or ended before its first step.
  bool took_longer = false;
  /// What of the folder could not be read.
  std::vector<std::string> notes = {};

  /// The last epoch's number; nullopt if there is none.
  std::optional<double> last(const std::string& value) const;
};

/// Reads the folder or bucket's folder at `path`. Throws: NotFound if it has no metrics.jsonl; Io.
RunRecord read_run(const io::Opener& opener, const std::string& path);

}  // namespace millrace::tools
