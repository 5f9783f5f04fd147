// Formats of other libraries that `create` reads, one per file; source_formats() lists them.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <memory>

#include "tools/create/source_format.h"

namespace millrace::tools {

/// TFRecord files of tf.train.Example, plain or gzipped. All records' frames are read and checked
/// when the source is opened, their contents when they are read. Source: TensorFlow's tfrecord and
/// example.proto. Throws: Corrupt, Truncated with the record's offset; Unsupported.
std::unique_ptr<SampleSource> open_tfrecord_source(const SourceRequest& request);

/// A folder of MosaicML's MDS shards with its index.json, packed or not. Pickles are refused.
/// Source: streaming.MDSWriter, version 2. Throws: Corrupt, Truncated with the shard; Unsupported.
std::unique_ptr<SampleSource> open_mds_source(const SourceRequest& request);

/// A folder that litdata.optimize() wrote. Pickles and encrypted chunks are refused. Source:
/// litdata's BinaryWriter. Throws: Corrupt, Truncated with the chunk; Unsupported.
std::unique_ptr<SampleSource> open_litdata_source(const SourceRequest& request);

/// COCO's JSON of images, annotations and categories, and the folder of the images: each with json
/// {"image_id", "width", "height", "boxes": [[x, y, w, h], ...], "labels", "areas", "crowd"}, and a
/// mask if asked for. Source: COCO's data format. Throws: Corrupt, NotFound with the image.
std::unique_ptr<SampleSource> open_coco_source(const SourceRequest& request);

/// Parquet files. Throws: Unsupported if Apache Arrow is missing; Corrupt, Truncated.
std::unique_ptr<SampleSource> open_parquet_source(const SourceRequest& request);

/// A folder of datasets' save_to_disk(), or of a hub's repository. Throws: as
/// open_parquet_source().
std::unique_ptr<SampleSource> open_hf_source(const SourceRequest& request);

}  // namespace millrace::tools
