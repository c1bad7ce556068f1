// SPDX-License-Identifier: Apache-2.0

/**
 * Streams of bytes between services, by service ID, over whichever transport leads there. A {@link
 * org.libripc.stream.StreamService} opens and accepts streams; a {@link
 * org.libripc.stream.ByteStream} is one end of a stream.
 *
 * <p>docs/java.md, "Byte streams", is the guide; docs/wire.md, "Stream connections", has the
 * format.
 */
package org.libripc.stream;
