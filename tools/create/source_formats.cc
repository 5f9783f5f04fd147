#include <array>

#include "tools/create/cifar_source.h"
#include "tools/create/csv_source.h"
#include "tools/create/folder_source.h"
#include "tools/create/formats/formats.h"
#include "tools/create/idx_source.h"
#include "tools/create/list_source.h"
#include "tools/create/source_format.h"

namespace millrace::tools {
namespace {

using Source = std::unique_ptr<SampleSource>;

Source open_folder(const SourceRequest& request) {
  Recoding recoding = request.recoding;
  recoding.upright = request.pairs.empty();
  return open_folder_source({.folder = request.paths.front(),
                             .pairs = request.pairs,
                             .class_depth = request.class_depth,
                             .recoding = recoding},
                            request.log);
}

Source open_csv(const SourceRequest& request) {
  return open_csv_source({.table = request.paths.front(),
                          .root = request.root,
                          .path = request.path_pattern,
                          .key = request.columns.key,
                          .class_column = request.columns.class_column,
                          .labels = request.columns.labels,
                          .columns = request.columns.columns,
                          .group_by = request.columns.group_by,
                          .recoding = request.recoding,
                          .outside = request.outside,
                          .log = request.log});
}

Source open_list(const SourceRequest& request) {
  return open_list_source({.list = request.paths.front(),
                           .root = request.root,
                           .recoding = request.recoding,
                           .outside = request.outside,
                           .log = request.log});
}

Source open_idx(const SourceRequest& request) {
  return open_idx_source(request.paths[0], request.paths[1],
                         {.encoding = request.encoding, .size = request.recoding.size});
}

Source open_cifar(const SourceRequest& request) {
  return open_cifar_source(
      {.files = request.paths, .encoding = request.encoding, .size = request.recoding.size});
}

constexpr std::uint32_t kTakesColumns = kTakesKey | kTakesClass | kTakesLabels | kTakesGroups;
constexpr std::uint32_t kTakesRecords = kTakesColumns | kTakesImages;

constexpr std::array kFormats = std::to_array<SourceFormat>({
    {"--from-folder", "DIR", SourceInput::kFolder, kTakesPairs | kTakesDepth | kKeepsFiles,
     "Folder of images, one sub-folder per class", open_folder},
    {"--from-csv", "FILE", SourceInput::kFile,
     kTakesPath | kTakesRoot | kTakesColumns | kKeepsFiles,
     "CSV table with a header, one image file per row", open_csv},
    {"--from-list", "FILE", SourceInput::kFile, kTakesRoot | kKeepsFiles,
     "List of image files: PATH, or PATH<TAB or space>LABEL", open_list},
    {"--from-idx", "IMAGES LABELS", SourceInput::kTwoFiles, 0, "IDX files, gzipped or not",
     open_idx},
    {"--from-cifar", "FILE.bin", SourceInput::kFiles, 0,
     "CIFAR-10's or CIFAR-100's own binary files", open_cifar},
    {"--from-json", "FILE", SourceInput::kFile, kTakesRoot | kTakesMasks | kKeepsFiles,
     "COCO's JSON of images, boxes and masks", open_coco_source},
    {"--from-parquet", "FILE", SourceInput::kFiles, kTakesRecords, "Parquet files, images in them",
     open_parquet_source},
    {"--from-hf", "DIR", SourceInput::kFolder, kTakesRecords,
     "Folder of Hugging Face's save_to_disk(), or a hub's repository", open_hf_source},
    {"--from-tfrecord", "FILE", SourceInput::kFiles, kTakesRecords,
     "TFRecord files of tf.train.Example", open_tfrecord_source},
    {"--from-mds", "DIR", SourceInput::kFolder, kTakesRecords, "Folder of MosaicML's MDS shards",
     open_mds_source},
    {"--from-litdata", "DIR", SourceInput::kFolder, kTakesRecords,
     "Folder that litdata.optimize() wrote", open_litdata_source},
});

}  // namespace

std::span<const SourceFormat> source_formats() { return kFormats; }

}  // namespace millrace::tools
