// SPDX-License-Identifier: BSD-2-Clause
// The rival of `fathom bench tpch`: DuckDB from the npm package @duckdb/node-api, in a process of its own.
//
//   tpch_duckdb.mjs version
//   tpch_duckdb.mjs load DATABASE THREADS MEMORY SCHEMA FOLDER
//   tpch_duckdb.mjs run DATABASE THREADS MEMORY RUNS QUERY ANSWER
//
// tpch_rival.py says what these do and print. The package is found as node finds packages, or in the folder that the environment
// variable FTH_DUCKDB names. Figures are differences: processor seconds of the whole process, and bytes that it moved.
import {createRequire} from 'node:module';
import {readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';

const folder = process.env.FTH_DUCKDB;
const require = createRequire(folder ? path.join(path.resolve(folder), 'package.json') : import.meta.url);

function ioBytes() {
	const io = readFileSync('/proc/self/io', 'utf8');
	return {read: Number(/^read_bytes: (\d+)/m.exec(io)[1]), written: Number(/^write_bytes: (\d+)/m.exec(io)[1])};
}

function peakBytes() {
	return 1024 * Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]);
}

async function measured(work) {
	const io = ioBytes(), cpu = process.cpuUsage(), start = process.hrtime.bigint();
	const value = await work();
	const wall = Number(process.hrtime.bigint() - start) / 1e9, used = process.cpuUsage(cpu), after = ioBytes();
	console.log((used.user + used.system) / 1e6, wall, after.read - io.read, after.written - io.written, peakBytes());
	return value;
}

async function open(file, threads, memory) {
	const {DuckDBInstance} = require('@duckdb/node-api');
	const instance = await DuckDBInstance.create(file);
	const connection = await instance.connect();
	await connection.run(`SET threads = ${Number(threads)}`);
	if (Number(memory))
		await connection.run(`SET memory_limit = '${Math.floor(memory / 1024)}KiB'`);
	return {instance, connection};
}

async function load(file, threads, memory, schema, text) {
	const tables = [], sql = readFileSync(schema, 'utf8');
	for (const match of sql.matchAll(/create table (\w+)/g))
		tables.push(match[1]);
	await measured(async () => {
		const {instance, connection} = await open(file, threads, memory);
		await connection.run(sql);
		for (const table of tables)
			await connection.run(`COPY ${table} FROM '${path.join(text, table + '.tbl')}' (DELIMITER '|', HEADER false)`);
		await connection.run('CHECKPOINT');
		connection.closeSync();
		instance.closeSync();
	});
}

async function run(file, threads, memory, runs, query, answer) {
	const sql = readFileSync(query, 'utf8');
	const {connection} = await open(file, threads, memory);
	for (let i = 0; i < Number(runs); i++) {
		const result = await measured(() => connection.runAndReadAll(sql));
		if (i === 0)
			writeFileSync(answer, result.getRows().map(
				(row) => row.map((value) => value === null ? '' : String(value)).join('|') + '\n').join(''));
	}
}

function version() {
	console.log('DuckDB', require('@duckdb/node-api').version().replace(/^v/, ''));
}

const [what, ...args] = process.argv.slice(2);
try {
	await {version, load, run}[what](...args);
} catch (error) {
	console.error(String(error.message ?? error).split('\n')[0]);
	process.exit(error.code === 'MODULE_NOT_FOUND' ? 77 : 1);
}
