// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/**
 * One finding of {@link Ripc#diagnose}. Several may have the same subject. Texts that are too long
 * end with "...". Immutable.
 *
 * @param level 0 good, 1 works but slower or limited, 2 broken
 * @param subject what was checked
 * @param text what was found
 * @param advice what to do; empty if nothing
 */
public record Finding(int level, String subject, String text, String advice) {}
