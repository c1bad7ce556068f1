// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonConfigurationKeys;
import org.apache.hadoop.io.compress.BZip2Codec;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.DefaultCodec;
import org.apache.hadoop.io.compress.DeflateCodec;
import org.apache.hadoop.io.compress.GzipCodec;
import org.apache.hadoop.io.compress.Lz4Codec;
import org.apache.hadoop.io.compress.SnappyCodec;
import org.apache.hadoop.mapreduce.CryptoUtils;
import org.apache.hadoop.mapreduce.MRJobConfig;

/** The memory that Hadoop takes to decrypt and decompress one stream. */
final class CodecMemory {
  // Two direct buffers of 64 KiB, and zlib's own memory.
  private static final long ZLIB = 192 << 10;
  // 5 bytes for each byte of a 900,000-byte block, and tables.
  private static final long BZIP2 = 4_700_000;

  private CodecMemory() {}

  /** In bytes; -1 if it is not known. */
  static long of(CompressionCodec codec, Configuration conf) {
    long decompression = decompression(codec, conf);
    return decompression < 0 ? decompression : decompression + decryption(conf);
  }

  private static long decryption(Configuration conf) {
    if (!CryptoUtils.isEncryptedSpillEnabled(conf)) return 0;
    long buffer =
        conf.getInt(
            MRJobConfig.MR_ENCRYPTED_INTERMEDIATE_DATA_BUFFER_KB,
            MRJobConfig.DEFAULT_MR_ENCRYPTED_INTERMEDIATE_DATA_BUFFER_KB);
    return 2 * buffer << 10;
  }

  private static long decompression(CompressionCodec codec, Configuration conf) {
    if (codec == null) return 0;
    Class<?> type = codec.getClass(); // a subclass may take more
    if (type == DefaultCodec.class || type == DeflateCodec.class || type == GzipCodec.class)
      return ZLIB + conf.getInt(CommonConfigurationKeys.IO_FILE_BUFFER_SIZE_KEY, 4096);
    if (type == BZip2Codec.class) return BZIP2;
    if (type == SnappyCodec.class)
      return blocks(
          conf,
          CommonConfigurationKeys.IO_COMPRESSION_CODEC_SNAPPY_BUFFERSIZE_KEY,
          CommonConfigurationKeys.IO_COMPRESSION_CODEC_SNAPPY_BUFFERSIZE_DEFAULT);
    if (type == Lz4Codec.class)
      return blocks(
          conf,
          CommonConfigurationKeys.IO_COMPRESSION_CODEC_LZ4_BUFFERSIZE_KEY,
          CommonConfigurationKeys.IO_COMPRESSION_CODEC_LZ4_BUFFERSIZE_DEFAULT);
    return -1;
  }

  /** The stream's buffer, and the decompressor's two. */
  private static long blocks(Configuration conf, String key, int usual) {
    return 3L * conf.getInt(key, usual);
  }
}
