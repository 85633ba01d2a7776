// Globals of an audio worklet, which the DOM types lack.

declare class AudioWorkletProcessor {
  constructor(options?: unknown);
  readonly port: MessagePort;
}
declare function registerProcessor(
  name: string,
  processor: new (options: { processorOptions: { ringSamples: number; tap: boolean } }) => AudioWorkletProcessor,
): void;
declare const currentFrame: number;
declare const sampleRate: number;

// Globals of the page: by boot.js, and by Gradio on its own pages.
interface SpeechRecognition {
  lang: string;
  interimResults: boolean;
  onresult: (event: { results: SpeechRecognitionResultList }) => void;
  onerror: () => void;
  onend: () => void;
  start(): void;
  abort(): void;
}
interface Window {
  SpeechRecognition?: new () => SpeechRecognition;
  webkitSpeechRecognition?: new () => SpeechRecognition;
  earlyView?: Promise<Response>;
  gradio_config: { title: string; current_page: string; pages: [string, string, ...unknown[]][] };
}
