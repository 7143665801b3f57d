'use server'
import { appendFile, readFile } from 'node:fs/promises'
import { revalidatePath } from 'next/cache'

const FILE = `${process.env.HOME}/items.txt`

export async function list() {
  const text = await readFile(FILE, 'utf8').catch(() => '')
  return text.split('\n').filter(Boolean)
}

export async function add(form) {
  await appendFile(FILE, `${form.get('item')}\n`)
  revalidatePath('/')
}
